import type {ComponentType} from 'react';

/** The parts of an Argo CD Application that these pages read. */
export interface Application {
    metadata: {name: string; namespace?: string};
    spec?: {project?: string; destination?: {name?: string; server?: string}};
    status?: {conditions?: {type?: unknown; message?: unknown}[]};
}

export interface ViewProps {
    application: Application;
    /** Only in the status panel; absent in old versions. */
    openFlyout?: () => unknown;
}

/** Argo CD's `window.extensionsAPI`. Old versions have only some of these functions. */
export interface ExtensionsApi {
    registerAppViewExtension?(
        component: ComponentType<ViewProps>,
        title: string,
        icon: string,
        shouldDisplay?: (application: Application) => boolean,
    ): void;
    registerStatusPanelExtension?(
        component: ComponentType<ViewProps>,
        title: string,
        id: string,
        flyout?: ComponentType<ViewProps>,
    ): void;
    registerSystemLevelExtension?(component: ComponentType, title: string, path: string, icon: string): void;
}

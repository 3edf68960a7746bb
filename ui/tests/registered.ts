/** The part of Argo CD where extensions register. Import it before the extension. */

import './setup';
import type {ComponentType} from 'react';
import type {Application, ExtensionsApi, ViewProps} from '../src/argocd';

export interface Registered {
    Panel: ComponentType<ViewProps>;
    Delivery: ComponentType<ViewProps>;
    Flyout: ComponentType<ViewProps>;
    Fleet: ComponentType;
    mayDisplay: (application: Application) => boolean;
    calls: string[];
}

export const registered = {calls: [] as string[]} as Registered;

const api: ExtensionsApi = {
    registerStatusPanelExtension: (component, title, id, flyout) => {
        registered.Panel = component;
        registered.Flyout = flyout as ComponentType<ViewProps>;
        registered.calls.push(`panel ${title} ${id}`);
    },
    registerAppViewExtension: (component, title, icon, mayDisplay) => {
        registered.Delivery = component;
        registered.mayDisplay = mayDisplay as Registered['mayDisplay'];
        registered.calls.push(`view ${title} ${icon}`);
    },
    registerSystemLevelExtension: (component, title, path, icon) => {
        registered.Fleet = component;
        registered.calls.push(`system ${title} ${path} ${icon}`);
    },
};
window.extensionsAPI = api;

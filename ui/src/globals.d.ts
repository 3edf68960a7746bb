import type * as ReactTypes from 'react';
import type {ExtensionsApi} from './argocd';

declare global {
    interface Window {
        /** Argo CD's own React: 16 up to Argo CD 3.4, 19 since 3.5. */
        React: typeof ReactTypes;
        /** Where extensions register. Absent outside of Argo CD. */
        extensionsAPI?: ExtensionsApi;
        /** From the settings file that argocd-server serves before this one. */
        argocdAgentAddon?: unknown;
    }
}

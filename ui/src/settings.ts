/** Argo CD's namespace if the settings file names none. */
const DEFAULT_NAMESPACE = 'argocd';

const DNS_LABEL = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

/** Argo CD's namespace, from `window.argocdAgentAddon = {namespace: '...'}`. A value of another form is ignored. */
export function argocdNamespace(settings: unknown = window.argocdAgentAddon): string {
    if (typeof settings !== 'object' || settings === null) {
        return DEFAULT_NAMESPACE;
    }
    const namespace: unknown = (settings as {namespace?: unknown}).namespace;
    return typeof namespace === 'string' && DNS_LABEL.test(namespace) ? namespace : DEFAULT_NAMESPACE;
}

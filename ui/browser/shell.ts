/**
 * The stand-in for Argo CD's shell: React, the functions with which extensions register, a router, a theme.
 *
 * Its own files are below `/shell-files/`. Addresses, with or without `/shell` in front:
 *   /shell/fleet                                           the page "Fleet"
 *   /shell/applications/NAMESPACE/NAME?view=delivery       the tab "Delivery"
 *   /shell/applications/NAMESPACE/NAME?view=panel          the status panel, with its flyout
 * Options, which stay for the session of the browser's tab:
 *   react=16|19 (19), theme=light|dark (light), namespace=NAME (argocd), project=NAME of Applications that cannot be read
 *   (default), extensions=server|local (server): /extensions.js of argocd-server, or the bundle beside this file
 */

import type {ComponentType, ReactElement} from 'react';
import type {Application, ExtensionsApi, ViewProps} from '../src/argocd';

interface Dom {
    render?: (element: ReactElement, container: Element) => void;
    createRoot?: (container: Element) => {render: (element: ReactElement) => void};
}

interface Extensions {
    panel?: {component: ComponentType<ViewProps>; flyout: ComponentType<ViewProps> | undefined};
    view?: {component: ComponentType<ViewProps>; shouldDisplay: ((application: Application) => boolean) | undefined};
    fleet?: ComponentType;
}

const registered: Extensions = {};

/** An option of the address; remembered, since links lead to addresses without options. */
function option(name: string, otherwise: string): string {
    const given = new URLSearchParams(window.location.search).get(name);
    if (given !== null) {
        window.sessionStorage.setItem(name, given);
    }
    return given ?? window.sessionStorage.getItem(name) ?? otherwise;
}

function load(source: string): Promise<void> {
    return new Promise((resolve, reject) => {
        const script = document.createElement('script');
        script.src = source;
        script.onload = () => resolve();
        script.onerror = () => reject(new Error(`${source} cannot be loaded`));
        document.head.appendChild(script);
    });
}

const api: ExtensionsApi = {
    registerStatusPanelExtension: (component, _title, _id, flyout) => {
        registered.panel = {component, flyout};
    },
    registerAppViewExtension: (component, _title, _icon, shouldDisplay) => {
        registered.view = {component, shouldDisplay};
    },
    registerSystemLevelExtension: component => {
        registered.fleet = component;
    },
};

/** The Application as argocd-server has it; a small one where it cannot be read. */
async function read(namespace: string, name: string, project: string): Promise<Application> {
    const url = `/api/v1/applications/${encodeURIComponent(name)}?appNamespace=${encodeURIComponent(namespace)}`;
    try {
        const response = await fetch(url, {headers: {Accept: 'application/json'}});
        if (response.ok) {
            return (await response.json()) as Application;
        }
    } catch {
        // No argocd-server behind this page.
    }
    return {metadata: {name, namespace}, spec: {project}};
}

type Place = {kind: 'fleet'} | {kind: 'application'; namespace: string; name: string; view: string} | {kind: 'none'};

function place(): Place {
    const path = window.location.pathname.replace(/^\/shell(?=\/)/, '');
    const [, namespace, name] = /^\/applications\/([^/]+)\/([^/]+)$/.exec(path) ?? [];
    if (namespace !== undefined && name !== undefined) {
        const view = new URLSearchParams(window.location.search).get('view') ?? 'panel';
        return {kind: 'application', namespace: decodeURIComponent(namespace), name: decodeURIComponent(name), view: view.toLowerCase()};
    }
    return path === '/fleet' ? {kind: 'fleet'} : {kind: 'none'};
}

function useAddress(): void {
    const {useEffect, useState} = window.React;
    const [, setAddress] = useState('');
    useEffect(() => {
        const changed = () => setAddress(window.location.href);
        window.addEventListener('popstate', changed);
        return () => window.removeEventListener('popstate', changed);
    }, []);
}

function ApplicationPage({namespace, name, view}: {namespace: string; name: string; view: string}) {
    const {createElement: h, useEffect, useState} = window.React;
    const [application, setApplication] = useState<Application | null>(null);
    const [isOpen, setOpen] = useState(false);
    useEffect(() => {
        setApplication(null);
        void read(namespace, name, option('project', 'default')).then(setApplication);
    }, [namespace, name]);
    if (application === null) {
        return h('p', null, 'Loading Application');
    }
    const {panel, view: tab} = registered;
    if (view === 'delivery' && tab) {
        const isOffered = tab.shouldDisplay?.(application) ?? true;
        return isOffered ? h(tab.component, {application}) : h('p', {id: 'no-tab'}, 'This Application has no tab Delivery.');
    }
    const flyout = isOpen && panel?.flyout;
    return h(
        'div',
        null,
        h('div', {className: 'application-status-panel'}, panel && h(panel.component, {application, openFlyout: () => setOpen(true)})),
        flyout &&
            h('div', {className: 'shell-flyout'}, h('button', {type: 'button', onClick: () => setOpen(false)}, 'close'), h(flyout, {application})),
    );
}

function Content() {
    const {createElement: h} = window.React;
    const at = place();
    switch (at.kind) {
        case 'fleet':
            return registered.fleet ? h(registered.fleet) : h('p', null, 'No extension has registered.');
        case 'application':
            return h(ApplicationPage, {namespace: at.namespace, name: at.name, view: at.view});
        case 'none':
            return h('p', null, 'The stand-in has no page at this address.');
    }
}

function Shell() {
    const {createElement: h, useState} = window.React;
    useAddress();
    const [theme, setTheme] = useState(option('theme', 'light'));
    const other = theme === 'dark' ? 'light' : 'dark';
    return h(
        'div',
        {className: `theme-${theme}`},
        h(
            'nav',
            {className: 'shell-bar', 'aria-label': 'Stand-in'},
            h('a', {href: '/shell/fleet'}, 'Fleet'),
            h('button', {type: 'button', id: 'theme', onClick: () => setTheme(other)}, `${other} theme`),
        ),
        h('main', {className: 'shell-main'}, h(Content)),
    );
}

async function start(): Promise<void> {
    await load(`/shell-files/react-${option('react', '19') === '16' ? '16' : '19'}.js`);
    window.extensionsAPI = api;
    if (option('extensions', 'server') === 'server') {
        await load('/extensions.js');
    } else {
        window.argocdAgentAddon = {namespace: option('namespace', 'argocd')};
        await load('/shell-files/extension-argocd-agent.js');
    }
    const container = document.getElementById('app');
    const dom = (window as unknown as {ReactDOM: Dom}).ReactDOM;
    const element = window.React.createElement(Shell);
    if (container && dom.createRoot) {
        dom.createRoot(container).render(element);
    } else if (container) {
        dom.render?.(element, container);
    }
}

void start();

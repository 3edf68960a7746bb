/** A page in this process: happy-dom with the React that the variable `REACT` names. Import it before anything else. */

import {readFileSync} from 'node:fs';
import {Window} from 'happy-dom';
import type {ReactElement} from 'react';

const page = new Window({url: 'https://argocd.example/fleet', width: 1400, height: 900});

/** Long timers wait for `fireTimers`: no test waits for the clock. */
const waiting = new Map<number, () => void>();
let lastTimer = 1_000_000;
const realTimeout = page.setTimeout.bind(page);
const realClear = page.clearTimeout.bind(page);

Object.assign(page, {
    setTimeout: (run: () => void, ms = 0) => {
        if (ms < 1000) {
            return realTimeout(run, ms);
        }
        lastTimer += 1;
        waiting.set(lastTimer, run);
        return lastTimer;
    },
    clearTimeout: (timer: number) => {
        if (!waiting.delete(timer)) {
            realClear(timer as unknown as NodeJS.Timeout);
        }
    },
    setInterval: () => 0,
    clearInterval: () => undefined,
});

const shared = ['document', 'navigator', 'HTMLElement', 'Node', 'Element', 'PopStateEvent', 'CSSStyleSheet', 'Response'];
for (const name of shared) {
    Object.defineProperty(globalThis, name, {value: (page as never)[name], configurable: true, writable: true});
}
/** React 16 works by messages to itself; those of Node.js would keep the process alive. */
class Channel {
    readonly port1 = {onmessage: (): void => undefined};
    readonly port2 = {postMessage: () => setImmediate(() => this.port1.onmessage())};
}

Object.assign(globalThis, {window: page, self: page, MessageChannel: Channel});
page.document.write('<!DOCTYPE html><html><head><base href="/"></head><body></body></html>');

const major = process.env['REACT'] ?? '19';
const folder = new URL('.', import.meta.url);
new Function(readFileSync(new URL(`react-${major}.js`, folder), 'utf8'))();

interface Dom {
    render?: (element: ReactElement, container: Element, done: () => void) => void;
    unmountComponentAtNode?: (container: Element) => void;
    createRoot?: (container: Element) => {render: (element: ReactElement) => void; unmount: () => void};
}

export interface Rendered {
    container: HTMLElement;
    unmount: () => void;
}

/** Draws an element into a new container. */
export function render(element: ReactElement): Rendered {
    const dom = (window as unknown as {ReactDOM: Dom}).ReactDOM;
    const container = document.createElement('div');
    document.body.appendChild(container);
    const remove = (unmount: () => void) => () => {
        unmount();
        container.remove();
    };
    if (dom.createRoot) {
        const root = dom.createRoot(container);
        root.render(element);
        return {container, unmount: remove(() => root.unmount())};
    }
    dom.render?.(element, container, () => undefined);
    return {container, unmount: remove(() => dom.unmountComponentAtNode?.(container))};
}

/** Turns of the event loop after which what has not happened never will. */
const TURNS = 200;

/** Lets React and promises work until the condition is true. */
export async function until(condition: () => unknown, description = String(condition)): Promise<void> {
    for (let turn = 0; turn < TURNS; turn += 1) {
        if (condition()) {
            return;
        }
        await new Promise(resolve => setImmediate(resolve));
    }
    throw new Error(`never: ${description}; the page: ${document.body.textContent?.slice(0, 600)}`);
}

/** Lets React and promises do all that they have to do. */
export async function settled(): Promise<void> {
    for (let turn = 0; turn < 20; turn += 1) {
        await new Promise(resolve => setImmediate(resolve));
    }
}

/** Runs all timers that wait now. */
export function fireTimers(): void {
    const runs = [...waiting.values()];
    waiting.clear();
    runs.forEach(run => run());
}

export interface Request {
    url: string;
    headers: Record<string, string>;
}

export interface Server {
    requests: Request[];
    answer: (request: Request) => Response | Promise<Response>;
}

/** Answers all requests of the page. */
export function serve(answer: Server['answer']): Server {
    const server: Server = {requests: [], answer};
    Object.assign(window, {
        fetch: async (url: string, init: {headers: Record<string, string>}) => {
            const request = {url, headers: init.headers};
            server.requests.push(request);
            return server.answer(request);
        },
    });
    return server;
}

export function json(body: unknown, status = 200, headers: Record<string, string> = {}): Response {
    const text = JSON.stringify(body);
    return new Response(status === 304 ? null : text, {status, headers: {'Content-Type': 'application/json', ...headers}});
}

/** Goes to an address as Argo CD's router would. */
export function visit(path: string): void {
    (page as unknown as {happyDOM: {setURL: (url: string) => void}}).happyDOM.setURL(`https://argocd.example${path}`);
    window.dispatchEvent(new PopStateEvent('popstate'));
}

export function setHidden(hidden: boolean): void {
    Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});
    document.dispatchEvent(new page.Event('visibilitychange') as unknown as Event);
}

export function press(element: Element, key: string): void {
    const event = new page.KeyboardEvent('keydown', {key, bubbles: true, cancelable: true});
    element.dispatchEvent(event as unknown as Event);
}

export function click(element: Element | null | undefined): void {
    if (!element) {
        throw new Error('nothing to click');
    }
    element.dispatchEvent(new page.MouseEvent('click', {bubbles: true, cancelable: true, button: 0}) as unknown as Event);
}

/** Types a text into a field, as React notices it: the value is set behind its back. */
export function type(field: Element | null, value: string): void {
    let prototype = Object.getPrototypeOf(field) as object | null;
    while (prototype && !Object.getOwnPropertyDescriptor(prototype, 'value')?.set) {
        prototype = Object.getPrototypeOf(prototype) as object | null;
    }
    Object.getOwnPropertyDescriptor(prototype, 'value')?.set?.call(field, value);
    field?.dispatchEvent(new page.Event('input', {bubbles: true}) as unknown as Event);
}

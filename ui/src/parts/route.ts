/** Moves inside of Argo CD's page without loading it again. */

import {React} from '../react';
import type {MouseEvent} from 'react';

/** An address below Argo CD's base URL. */
export function withBase(path: string): string {
    return new URL(path, document.baseURI).pathname;
}

/** Argo CD's router, and ours, read the address again. */
function announce(): void {
    window.dispatchEvent(new PopStateEvent('popstate', {state: null}));
}

export function go(url: string): void {
    window.history.pushState(null, '', url);
    announce();
}

/** Changes the query of this page without a new entry in the history. */
export function replaceQuery(query: string): void {
    const {pathname, hash} = window.location;
    try {
        window.history.replaceState(window.history.state, '', `${pathname}${query}${hash}`);
    } catch {
        // Browsers limit how often the address may change: a later change writes all of it.
    }
}

/** Follows a link inside of the page, but not if the user wants a new tab. */
export function onLink(event: MouseEvent, url: string): void {
    const isPlain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
    if (isPlain && !event.defaultPrevented) {
        event.preventDefault();
        go(url);
    }
}

/** The query of the page's address, as it changes by links and by the browser's buttons. */
export function useQuery(): string {
    const [query, setQuery] = React.useState(window.location.search);
    React.useEffect(() => {
        const read = () => setQuery(window.location.search);
        window.addEventListener('popstate', read);
        return () => window.removeEventListener('popstate', read);
    }, []);
    return query;
}

/** The page of an Application in Argo CD. Null if a name cannot be part of an address. */
export function applicationUrl(namespace: string, name: string): string | null {
    const isUsable = [namespace, name].every(it => it !== '' && it !== '.' && it !== '..');
    return isUsable ? withBase(`applications/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`) : null;
}

/** Sends one request. */

import * as failures from './failure';
import type {Failure} from './failure';
import type {Question} from './question';

export type Answer<T> =
    | {kind: 'fresh'; data: T; etag: string | null}
    | {kind: 'same'}
    | {kind: 'failed'; failure: Failure};

export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** The hub program ends a request after 10 s. */
const TIMEOUT_MS = 15_000;

/** Bytes of a refusal that are of interest. */
const LONGEST_REFUSAL = 4096;

function failed(failure: Failure): {kind: 'failed'; failure: Failure} {
    return {kind: 'failed', failure};
}

/** Asks once; `signal` ends it. Never rejects. */
export async function ask<T>(
    question: Question<T>,
    etag: string | null,
    signal: AbortSignal,
    send: Fetch = (url, init) => window.fetch(url, init),
): Promise<Answer<T>> {
    if (question.path === null) {
        return failed(failures.unusable());
    }
    const timeout = new AbortController();
    const end = () => timeout.abort();
    signal.addEventListener('abort', end);
    let isLate = false;
    const timer = window.setTimeout(() => {
        isLate = true;
        end();
    }, TIMEOUT_MS);
    try {
        const headers: Record<string, string> = {...question.headers, Accept: 'application/json'};
        if (etag !== null) {
            headers['If-None-Match'] = etag;
        }
        // Argo CD may live below a path: its page has the base.
        const url = new URL(question.path, document.baseURI).href;
        const init: RequestInit = {headers, signal: timeout.signal, cache: 'no-store', credentials: 'same-origin'};
        return await read(await send(url, init), question);
    } catch {
        return failed(failures.unreachable(isLate));
    } finally {
        window.clearTimeout(timer);
        signal.removeEventListener('abort', end);
    }
}

async function read<T>(response: Response, question: Question<T>): Promise<Answer<T>> {
    if (response.status === 304) {
        return {kind: 'same'};
    }
    if (response.status !== 200) {
        const body = (await response.text()).slice(0, LONGEST_REFUSAL);
        return failed(failures.refused({status: response.status, body}, question.subject));
    }
    let body: unknown;
    try {
        body = JSON.parse(await response.text());
    } catch (error) {
        if (error instanceof SyntaxError) {
            return failed(failures.foreign());
        }
        throw error;
    }
    const data = question.decode(body);
    return data === null
        ? failed(failures.notUnderstood())
        : {kind: 'fresh', data, etag: response.headers.get('ETag')};
}

/** Why a request failed, and the next step. Pure. */

/** The object of a request: it decides which permission is missing. */
export type Subject = 'fleet' | 'application';

export interface Failure {
    cause: string;
    next: string;
    /** Whether only a person can change it, so that asking often is useless. */
    lasting: boolean;
    /** Whether argocd-server refused the request before the hub program got it. */
    forbidden?: boolean;
    /** Whether the Application itself has the cause: it is blocked, whatever else is not known. */
    blocked?: boolean;
}

/** A refused answer, as far as it was read. */
export interface Refusal {
    status: number;
    body: string;
}

/** Longer texts of answers are cut. */
const LONGEST = 500;

const CHECK = 'an administrator finds the cause with: argocd-agentctl check hub';

function failure(cause: string, next: string, lasting = false): Failure {
    return {cause, next, lasting};
}

/** `{error, next}` of the hub program, or null. */
function ofHubProgram(body: string): {error: string; next: string} | null {
    try {
        const {error, next} = JSON.parse(body) as {error?: unknown; next?: unknown};
        if (typeof error === 'string' && typeof next === 'string') {
            return {error: error.slice(0, LONGEST), next: next.slice(0, LONGEST)};
        }
    } catch {
        // argocd-server and proxies answer with plain text or HTML.
    }
    return null;
}

function forbidden(subject: Subject): Failure {
    const refusal = subject === 'fleet'
        ? failure(
              "Argo CD's policies do not let you see the fleet",
              'ask an administrator for `get` on the Application argocd-agent-fleet, and for `invoke` on the extension ' +
                  'argocd-agent-fleet',
              true,
          )
        : failure(
              "Argo CD's policies do not let you see the delivery of this Application",
              'ask an administrator for `get` on this Application, and for `invoke` on the extension argocd-agent',
              true,
          );
    return {...refusal, forbidden: true};
}

function signedOut(): Failure {
    return failure('your session at Argo CD has ended', 'sign in again: reload this page', true);
}

/** argocd-server answers 401 both without a session and without permission; its text tells them apart. */
function unauthorized(body: string, subject: Subject): Failure {
    return /unauthorized extension request|permission denied/i.test(body) ? forbidden(subject) : signedOut();
}

function notFound(body: string, subject: Subject): Failure {
    if (/extension not found/i.test(body)) {
        return switchedOff();
    }
    return subject === 'fleet'
        ? failure('argocd-server does not know the extension, or the cluster is gone', CHECK)
        : failure('argocd-server does not know the extension, or the hub does not know this Application', CHECK);
}

function switchedOff(): Failure {
    return failure(
        'argocd-server does not forward requests to the hub program',
        'an administrator switches it on: argocd-agentctl hub setup',
        true,
    );
}

/** An answer with a status other than 200 and 304. */
export function refused({status, body}: Refusal, subject: Subject): Failure {
    const own = ofHubProgram(body);
    if (own) {
        return failure(own.error, own.next, status < 500);
    }
    switch (status) {
        case 400:
            return /cookie/i.test(body)
                ? signedOut()
                : failure(`argocd-server refused the request: ${excerpt(body)}`, CHECK, true);
        case 401:
            return unauthorized(body, subject);
        case 403:
            return forbidden(subject);
        case 404:
            return notFound(body, subject);
        case 429:
            return failure('too many requests at once', 'wait; this page asks again by itself');
        case 502:
        case 504:
            return failure('argocd-server cannot reach the hub program', CHECK);
        case 503:
            return failure(
                'the hub program is not ready yet',
                'wait some seconds; this page asks again by itself. If it stays so, ' + CHECK,
            );
        default:
            return failure(`argocd-server answered with status ${status}: ${excerpt(body)}`, CHECK);
    }
}

function excerpt(body: string): string {
    return body.trim().slice(0, LONGEST) || 'no text';
}

/** No answer. */
export function unreachable(isTimeout: boolean): Failure {
    return isTimeout
        ? failure('argocd-server did not answer in time', 'wait; this page asks again by itself')
        : failure('argocd-server cannot be reached', 'check your connection; this page asks again by itself');
}

/** An answer with status 200 that is not JSON: argocd-server's own page, or that of a proxy in front of it. */
export function foreign(): Failure {
    return switchedOff();
}

/** JSON of another form. */
export function notUnderstood(): Failure {
    return failure(
        'this page does not understand the answer of the hub program',
        'reload the page; if that does not help, the versions of page and hub program differ. ' + CHECK,
    );
}

/** The name of an object cannot be part of a URL. */
export function unusable(): Failure {
    return failure('the name of this object cannot be asked for', 'rename the object', true);
}

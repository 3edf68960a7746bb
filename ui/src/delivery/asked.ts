/** The answer about an Application. argocd-server may refuse the request; the Application itself then has the cause. */

import type {Application} from '../argocd';
import type {Failure} from '../api/failure';
import {askPath} from '../api/question';
import type {Path} from '../api/types';
import {usePoll} from '../poll/use';
import type {Asked} from '../poll/use';
import {argocdNamespace} from '../settings';

/** The conditions that the add-on writes. */
const OURS = 'ArgoCDAgent';
/** Longer messages are cut. */
const LONGEST = 1_000;

/** The messages of the add-on's conditions, or null. */
function reported(application: Application): string | null {
    const conditions = application.status?.conditions;
    const all = Array.isArray(conditions) ? conditions : [];
    const ours = all.filter(it => typeof it?.type === 'string' && it.type.startsWith(OURS));
    const messages = ours.flatMap(it => (typeof it.message === 'string' ? [it.message] : []));
    return messages.length === 0 ? null : messages.join('; also: ').slice(0, LONGEST);
}

/**
 * The cause of a refusal, from the Application alone. Pure.
 *
 * argocd-server forwards no request about an Application whose destination is unknown or whose project does not permit it, and gives
 * the same answer as without a permission.
 */
export function explained(failure: Failure, application: Application): Failure {
    if (!failure.forbidden) {
        return failure;
    }
    const {project = 'default', destination = {}} = application.spec ?? {};
    const place = destination.name || destination.server || '';
    const owner = `the AppProject ${argocdNamespace()}/${project}`;
    const message = reported(application);
    if (message !== null) {
        const next = `correct the field that the message names, in ${owner} or in this Application`;
        return {...failure, blocked: true, cause: message, next};
    }
    const cause =
        `${JSON.stringify(place)} is no cluster that Argo CD knows, or the project ${project} does not permit the destination, or ` +
        'its policies do not let you see the delivery of this Application';
    const next =
        `set spec.destination.name to a cluster of the fleet, or add the destination to ${owner}, or ${failure.next}`;
    return {...failure, cause, next};
}

/** The way of an Application, kept up to date. */
export function useWay(application: Application): Asked<Path> {
    const {poll, retry} = usePoll(askPath(application));
    const failure = poll.failure && explained(poll.failure, application);
    return {poll: {...poll, failure}, retry};
}

/** Whether an Application has a way to a cluster of the fleet, as far as known. */

import type {Application} from '../argocd';
import {askPath, namespaceOf} from '../api/question';
import {pollerOf} from '../poll/poller';
import {argocdNamespace} from '../settings';

/** The server of the hub itself, as Argo CD names it. */
const IN_CLUSTER = 'https://kubernetes.default.svc';

/** By the Application alone: one of Argo CD's namespace with the hub as its destination stays on the hub. */
function looksLocal(application: Application): boolean {
    const {name = '', server = ''} = application.spec?.destination ?? {};
    const isHub = name === 'in-cluster' || (name === '' && server === IN_CLUSTER);
    return isHub && namespaceOf(application) === argocdNamespace();
}

/** Whether the tab "Delivery" is offered. The answer for the status panel decides, as soon as it is there. */
export function mayDisplay(application: Application): boolean {
    const {data} = pollerOf(askPath(application)).current();
    return data === null ? !looksLocal(application) : data.cluster !== null || data.verdict !== 'good';
}

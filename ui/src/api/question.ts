/** The requests of these pages: path, headers, and how to read the answer. Pure. */

import type {Application} from '../argocd';
import {argocdNamespace} from '../settings';
import * as decode from './decode';
import type {Subject} from './failure';
import type {ClusterDetails, Fleet, Path} from './types';

/** Name of the guard Application and its project: only users that may get it see the fleet. */
const GUARD = 'argocd-agent-fleet';

export interface Question<T> {
    /** Equal keys have equal answers. */
    key: string;
    /** Below Argo CD's base URL; null if a name cannot be part of one. */
    path: string | null;
    headers: Record<string, string>;
    subject: Subject;
    decode: (body: unknown) => T | null;
}

/** One segment of a path. The browser would resolve `.` and `..`. */
function segment(name: string): string | null {
    return name === '' || name === '.' || name === '..' ? null : encodeURIComponent(name);
}

function join(prefix: string, names: string[], suffix = ''): string | null {
    const segments = names.map(segment);
    return segments.includes(null) ? null : `${prefix}${segments.join('/')}${suffix}`;
}

function ofFleet<T>(path: string | null, answer: (body: unknown) => T | null): Question<T> {
    const namespace = argocdNamespace();
    return {
        key: `${namespace} ${path}`,
        path,
        headers: {'Argocd-Application-Name': `${namespace}:${GUARD}`, 'Argocd-Project-Name': GUARD},
        subject: 'fleet',
        decode: answer,
    };
}

export function askFleet(): Question<Fleet> {
    return ofFleet('extensions/argocd-agent-fleet/api/v1/fleet', decode.fleet);
}

export function askCluster(name: string): Question<ClusterDetails> {
    return ofFleet(join('extensions/argocd-agent-fleet/api/v1/clusters/', [name]), decode.clusterDetails);
}

/** An Application without a namespace is one of Argo CD's namespace. */
export function namespaceOf(application: Application): string {
    return application.metadata.namespace || argocdNamespace();
}

export function askPath(application: Application): Question<Path> {
    const namespace = namespaceOf(application);
    const {name} = application.metadata;
    const project = application.spec?.project || 'default';
    const path = join('extensions/argocd-agent/api/v1/applications/', [namespace, name], '/path');
    return {
        key: `${project} ${path}`,
        path,
        headers: {'Argocd-Application-Name': `${namespace}:${name}`, 'Argocd-Project-Name': project},
        subject: 'application',
        decode: decode.path,
    };
}

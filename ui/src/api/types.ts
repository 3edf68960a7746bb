/** The hub program's answers, decoded. Times are milliseconds since 1970; what is absent is null. */

export type Connection = 'yes' | 'no' | 'not-yet' | 'unknown' | 'leaving';

export interface Connected {
    state: Connection;
    since: number | null;
}

/** A name and how many there are. */
export type Count = [name: string, count: number];

export interface Tally {
    total: number;
    sync: Count[];
    health: Count[];
    troubled: number;
    behind: number;
    behindSince: number | null;
}

export interface Problem {
    condition: string;
    reason: string;
    message: string;
    since: number | null;
}

export interface Cluster {
    name: string;
    mode: string | null;
    version: string | null;
    connected: Connected;
    applications: Tally;
    certificateExpires: number | null;
    lastError: Problem | null;
    degraded: boolean;
    labels: ReadonlyMap<string, string>;
    clusterSet: string | null;
}

export interface Fleet {
    generatedAt: number | null;
    replica: string;
    version: string;
    clusters: Cluster[];
}

export interface Condition {
    type: string;
    status: string;
    reason: string;
    message: string;
    lastTransitionTime: number | null;
}

export interface Trouble {
    namespace: string;
    name: string;
    reason: string;
    since: number | null;
    cause: string;
    sync: string | null;
    health: string | null;
}

/** One minute of a cluster. */
export interface Minute {
    at: number;
    lagSeconds: number;
    behind: number;
    reports: number;
    sessions: number;
    connected: boolean;
}

export interface ClusterDetails {
    generatedAt: number | null;
    cluster: Cluster;
    conditions: Condition[];
    certificate: {description: string; expires: number | null} | null;
    troubles: Trouble[];
    troublesCut: boolean;
    history: Minute[];
}

export type HopState = 'good' | 'unclear' | 'waiting' | 'bad';

export interface Hop {
    hop: string;
    state: HopState;
    at: number | null;
    text: string;
    next: string | null;
}

export interface Writer {
    manager: string;
    at: number | null;
    wrote: string[];
}

export interface Delivery {
    version: string;
    /** Whether the change is only an operation, such as a sync. */
    isOperation: boolean;
    written: number | null;
    sent: number | null;
    acknowledged: number | null;
    reported: number | null;
    trace: string | null;
}

/** The way of one Application. */
export interface Path {
    generatedAt: number | null;
    namespace: string;
    name: string;
    cluster: string | null;
    hops: Hop[];
    writers: Writer[];
    doubts: string[];
    verdict: HopState;
    next: string | null;
    connection: Connected | null;
    timeline: Delivery[];
}

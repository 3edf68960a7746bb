import {React} from '../react';
import type {Cluster, ClusterDetails, Condition, Count} from '../api/types';
import {isAway} from '../fleet/judge';
import {Word} from '../parts/mark';
import type {Mood} from '../parts/mood';
import {applicationUrl, onLink} from '../parts/route';
import {Table} from '../parts/table';
import {Age, Long} from '../parts/text';
import {age, left, oneLine} from '../text/format';

/** Conditions that are bad when they are true. */
const BAD_IF_TRUE = new Set(['Degraded']);
/** OCM's condition of a roll-out: true while one goes on, false when it is complete. */
const PROGRESSING = 'Progressing';

/** The mood of a condition. */
export function moodOf({type, status}: Pick<Condition, 'type' | 'status'>): Mood {
    if (status === 'Unknown') {
        return 'unclear';
    }
    if (type === PROGRESSING) {
        return status === 'True' ? 'waiting' : 'good';
    }
    return (status === 'True') === BAD_IF_TRUE.has(type) ? 'bad' : 'good';
}

export function Conditions({conditions, now}: {conditions: Condition[]; now: number}) {
    if (conditions.length === 0) {
        return <p className='acda-muted'>The add-on has no conditions yet.</p>;
    }
    const rows = conditions.map(it => [
        oneLine(it.type).slice(0, 100),
        <Word mood={moodOf(it)}>{oneLine(it.status).slice(0, 20)}</Word>,
        oneLine(it.reason).slice(0, 100),
        <Age at={it.lastTransitionTime} now={now} />,
        <Long text={it.message} />,
    ]);
    return <Table heads={['Condition', 'Status', 'Reason', 'Age', 'Message']} rows={rows} />;
}

function ApplicationLink({namespace, name}: {namespace: string; name: string}) {
    const url = applicationUrl(namespace, name);
    const text = oneLine(`${namespace}/${name}`).slice(0, 320);
    return url === null ? (
        <>{text}</>
    ) : (
        <a href={url} onClick={event => onLink(event, url)}>
            {text}
        </a>
    );
}

export function Troubles({details, now}: {details: ClusterDetails; now: number}) {
    const {cluster, troubles, troublesCut: isCut} = details;
    const away = isAway(cluster.connected.state) && (
        <p>The agent is not connected: changes wait, and states of Applications are those from before.</p>
    );
    if (troubles.length === 0) {
        return away || <p className='acda-muted'>No Application of this cluster needs attention.</p>;
    }
    const rows = troubles.map(it => [
        <ApplicationLink namespace={it.namespace} name={it.name} />,
        <Word mood='bad'>{oneLine(it.reason).slice(0, 100)}</Word>,
        <Age at={it.since} now={now} />,
        <Long text={it.cause} />,
    ]);
    return (
        <>
            {away}
            <Table heads={['Application', 'Reason', 'Age', 'Cause']} rows={rows} />
            {isCut && <p className='acda-muted'>There are more: argocd-agentctl status --applications lists all.</p>}
        </>
    );
}

function counted(counts: Count[]): string {
    return counts.map(([name, number]) => `${number} ${oneLine(name).slice(0, 40)}`).join(', ') || '-';
}

/** Labels that are shown before "show all". */
const FIRST_LABELS = 8;

function Labels({cluster}: {cluster: Cluster}) {
    const [isOpen, setOpen] = React.useState(false);
    const all = [...cluster.labels];
    const shown = isOpen ? all : all.slice(0, FIRST_LABELS);
    if (all.length === 0) {
        return <>-</>;
    }
    return (
        <span className='acda-labels'>
            {shown.map(([key, value]) => (
                <code key={key}>{oneLine(value === '' ? key : `${key}=${value}`).slice(0, 400)}</code>
            ))}
            {all.length > FIRST_LABELS && (
                <button type='button' className='acda-inline' aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
                    {isOpen ? 'show less' : `show all ${all.length}`}
                </button>
            )}
        </span>
    );
}

function certificateText({certificate, cluster}: ClusterDetails, now: number): string {
    const until = certificate?.expires ?? cluster.certificateExpires;
    if (until === null) {
        return certificate ? oneLine(certificate.description).slice(0, 400) : 'none yet';
    }
    const description = certificate ? `: ${oneLine(certificate.description).slice(0, 400)}` : '';
    return until > now ? `ends in ${left(until, now)}${description}` : `ended${description}`;
}

/** Facts of the cluster as a list of names and values. */
export function Facts({details, now}: {details: ClusterDetails; now: number}) {
    const {cluster} = details;
    const {applications} = cluster;
    const lag = applications.behindSince === null ? '' : `, the oldest for ${age(applications.behindSince, now)}`;
    const facts: [string, React.ReactNode][] = [
        ['Mode', oneLine(cluster.mode ?? '-')],
        ['Version of the agent', oneLine(cluster.version ?? '-').slice(0, 100)],
        ['ClusterSet', oneLine(cluster.clusterSet ?? '-').slice(0, 100)],
        ['Certificate', certificateText(details, now)],
        ['Applications', String(applications.total)],
        ['By sync', counted(applications.sync)],
        ['By health', counted(applications.health)],
        ['With a condition of the add-on', String(applications.troubled)],
        ['Not yet compared', `${applications.behind}${lag}`],
        ['Labels', <Labels key='labels' cluster={cluster} />],
    ];
    return (
        <dl className='acda-facts'>
            {facts.map(([name, value]) => (
                <div key={name}>
                    <dt>{name}</dt>
                    <dd>{value}</dd>
                </div>
            ))}
        </dl>
    );
}

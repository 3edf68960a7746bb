import {React} from '../react';
import {askCluster} from '../api/question';
import type {ClusterDetails} from '../api/types';
import {STATES, connectionText, judge} from '../fleet/judge';
import {clockOffset} from '../poll/machine';
import {useNow, usePoll} from '../poll/use';
import {Answered, Card} from '../parts/frame';
import {Word} from '../parts/mark';
import {onLink} from '../parts/route';
import {Age, Long} from '../parts/text';
import {oneLine} from '../text/format';
import {Charts} from './charts';
import {Conditions, Facts, Troubles} from './parts';

function State({details, now}: {details: ClusterDetails; now: number}) {
    const {cluster} = details;
    const {mood, label} = STATES[judge(cluster)];
    const {connected, lastError} = cluster;
    return (
        <div className='acda-verdict'>
            <Word mood={mood}>
                <strong>{label}</strong>
            </Word>
            <span>
                agent: {connectionText(connected.state)}
                {connected.since !== null && (
                    <>
                        {' for '}
                        <Age at={connected.since} now={now} />
                    </>
                )}
            </span>
            {lastError !== null && (
                <div>
                    <strong>{oneLine(lastError.reason).slice(0, 100)}</strong>: <Long text={lastError.message} />
                </div>
            )}
        </div>
    );
}

function Content({details, now}: {details: ClusterDetails; now: number}) {
    return (
        <>
            <State details={details} now={now} />
            <Card title='Applications that need attention'>
                <Troubles details={details} now={now} />
            </Card>
            <Card title='Conditions'>
                <Conditions conditions={details.conditions} now={now} />
            </Card>
            <Card title='The last hour'>
                <Charts history={details.history} now={now} />
            </Card>
            <Card title='Facts'>
                <Facts details={details} now={now} />
            </Card>
        </>
    );
}

/** The page of one cluster. `back` is the address of the table, with its filters. */
export function ClusterPage({name, back}: {name: string; back: string}) {
    const asked = usePoll(askCluster(name));
    const now = useNow();
    const heading = React.useRef<HTMLHeadingElement>(null);
    React.useEffect(() => heading.current?.focus({preventScroll: true}), []);
    return (
        <>
            <nav aria-label='Fleet'>
                <a href={back} onClick={event => onLink(event, back)}>
                    ← all clusters
                </a>
            </nav>
            <h2 ref={heading} tabIndex={-1} className='acda-title'>
                Cluster {oneLine(name).slice(0, 300)}
            </h2>
            <Answered asked={asked} now={now}>
                {details => <Content details={details} now={now + clockOffset(details.generatedAt, asked.poll.freshAt)} />}
            </Answered>
        </>
    );
}

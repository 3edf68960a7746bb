import {React} from '../react';
import type {Application} from '../argocd';
import type {Path, Writer} from '../api/types';
import {clockOffset} from '../poll/machine';
import {useNow} from '../poll/use';
import {Next} from '../parts/copy';
import {Answered, Card} from '../parts/frame';
import {Word} from '../parts/mark';
import {Table} from '../parts/table';
import {Age, Long} from '../parts/text';
import {oneLine} from '../text/format';
import {useWay} from './asked';
import {Hops} from './hops';
import {Timeline} from './timeline';
import {verdictText} from './words';

function Writers({writers, now}: {writers: Writer[]; now: number}) {
    if (writers.length === 0) {
        return <p className='acda-muted'>The object has no record of its writers.</p>;
    }
    const rows = writers.map(it => [<Long text={it.manager} />, <Age at={it.at} now={now} />, <Long text={it.wrote.join(', ')} />]);
    return <Table heads={['Writer', 'Age', 'Wrote']} rows={rows} />;
}

function Verdict({path}: {path: Path}) {
    const {cluster, verdict, next} = path;
    return (
        <div className='acda-verdict' role='status' aria-live='polite'>
            <Word mood={verdict}>
                <strong>{verdictText(path)}</strong>
            </Word>
            {cluster !== null && (
                <span>
                    cluster <strong>{oneLine(cluster)}</strong>
                </span>
            )}
            {next !== null && <Next text={next} />}
        </div>
    );
}

/** The tab "Delivery": the way of one Application. */
export function DeliveryPage({application}: {application: Application}) {
    const asked = useWay(application);
    const now = useNow();
    return (
        <div className='acda acda-page'>
            <Answered asked={asked} now={now}>
                {path => {
                    const there = now + clockOffset(path.generatedAt, asked.poll.freshAt);
                    return (
                        <>
                            <Verdict path={path} />
                            <Card title='Way'>
                                <Hops hops={path.hops} now={there} />
                            </Card>
                            {path.doubts.length > 0 && (
                                <Card title='Not known'>
                                    <ul>
                                        {path.doubts.map((doubt, index) => (
                                            <li key={index}>
                                                <Long text={doubt} />
                                            </li>
                                        ))}
                                    </ul>
                                </Card>
                            )}
                            <Card title='Last changes'>
                                <Timeline deliveries={path.timeline} now={there} />
                            </Card>
                            <Card title='Writers on the hub'>
                                <Writers writers={path.writers} now={there} />
                            </Card>
                        </>
                    );
                }}
            </Answered>
        </div>
    );
}

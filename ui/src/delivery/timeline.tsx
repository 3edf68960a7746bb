import {React} from '../react';
import type {Delivery} from '../api/types';
import {Copy} from '../parts/copy';
import {Word} from '../parts/mark';
import {Age} from '../parts/text';
import {latency, oneLine} from '../text/format';
import {timed} from './steps';
import type {StepName, TimedStep} from './steps';

const WAITING: Record<StepName, string> = {
    sent: 'waits to be sent',
    acknowledged: 'waits for the agent',
    reported: "waits for Argo CD's report",
};

/** Units of the drawing's width. */
const WIDTH = 300;

/** The steps as a bar: each part as long as its step took. */
function Bar({steps}: {steps: TimedStep[]}) {
    let x = 0;
    return (
        <svg className='acda-bar' viewBox={`0 0 ${WIDTH} 10`} preserveAspectRatio='none' aria-hidden='true' focusable='false'>
            <rect className='acda-bar-base' x='0' y='0' width={WIDTH} height='10' />
            {steps.map(({name, share}) => {
                const [left, width] = [x, share * WIDTH];
                x += width;
                return <rect key={name} className={`acda-bar-${name}`} x={left} y='0' width={width} height='10' />;
            })}
        </svg>
    );
}

function Trace({id}: {id: string | null}) {
    if (id === null) {
        return <span className='acda-muted'>-</span>;
    }
    const text = oneLine(id).slice(0, 64);
    return (
        <span className='acda-trace'>
            <code>{text}</code> <Copy text={text} of='the trace ID' />
        </span>
    );
}

function Line({delivery, now}: {delivery: Delivery; now: number}) {
    const {steps, total, open} = timed(delivery);
    return (
        <tr>
            <th scope='row'>
                <code>{oneLine(delivery.version).slice(0, 32)}</code>
                {delivery.isOperation && <span className='acda-muted'> operation</span>}
            </th>
            <td>
                <Age at={delivery.written} now={now} />
            </td>
            {steps.map(it => (
                <td key={it.name}>{it.at === null ? '-' : it.took === null ? 'done' : `+${latency(it.took)}`}</td>
            ))}
            <td>{open === null && total !== null ? <Word mood='good'>{latency(total)}</Word> : open && <Word mood='waiting'>{WAITING[open]}</Word>}</td>
            <td>
                <Bar steps={steps} />
            </td>
            <td>
                <Trace id={delivery.trace} />
            </td>
        </tr>
    );
}

/** The last changes on the hub and how long each step of their delivery took. */
export function Timeline({deliveries, now}: {deliveries: Delivery[]; now: number}) {
    if (deliveries.length === 0) {
        return <p className='acda-muted'>The hub program has delivered no change of this Application since it started.</p>;
    }
    return (
        <div className='acda-wide' tabIndex={0} role='region' aria-label='Steps of the last changes'>
            <table className='acda-plain'>
                <thead>
                    <tr>
                        <th scope='col'>Version on the hub</th>
                        <th scope='col'>Written</th>
                        <th scope='col'>Sent</th>
                        <th scope='col'>Acknowledged</th>
                        <th scope='col'>Reported</th>
                        <th scope='col'>In all</th>
                        <td />
                        <th scope='col'>Trace</th>
                    </tr>
                </thead>
                <tbody>
                    {deliveries.map((it, index) => (
                        <Line key={`${it.version} ${index}`} delivery={it} now={now} />
                    ))}
                </tbody>
            </table>
        </div>
    );
}

import {React} from '../react';
import type {Minute} from '../api/types';
import {span} from '../text/format';
import {SPAN_MS, bars, ceiling, line} from './chart';
import type {Point} from './chart';

const SIZE = {width: 600, height: 90};

interface Kind {
    title: string;
    value: (minute: Minute) => number;
    form: 'line' | 'bars';
    show: (value: number) => string;
}

const KINDS: Kind[] = [
    {title: 'Lag', value: it => it.lagSeconds, form: 'line', show: value => span(value * 1000)},
    {title: 'Reports a minute', value: it => it.reports, form: 'bars', show: String},
    {title: 'Sessions begun', value: it => it.sessions, form: 'bars', show: String},
];

/** Minutes without a connection, as a background. */
function gaps(history: readonly Minute[], end: number) {
    const points = history.filter(it => !it.connected).map(({at}) => ({at, value: 1}));
    return bars(points, end, 1, SIZE);
}

function Chart({kind, history, end}: {kind: Kind; history: Minute[]; end: number}) {
    const points: Point[] = history.map(it => ({at: it.at, value: kind.value(it)}));
    const top = ceiling(points);
    const highest = kind.show(points.reduce((most, {value}) => Math.max(most, value), 0));
    const last = kind.show(points[points.length - 1]?.value ?? 0);
    const label = `${kind.title} over the last hour: now ${last}, at most ${highest}`;
    return (
        <figure className='acda-chart'>
            <figcaption>
                {kind.title} <span className='acda-muted'>now {last}, at most {highest}</span>
            </figcaption>
            <svg viewBox={`0 0 ${SIZE.width} ${SIZE.height}`} preserveAspectRatio='none' role='img' aria-label={label}>
                {gaps(history, end).map((bar, index) => (
                    <rect key={`gap ${index}`} className='acda-chart-gap' {...bar} />
                ))}
                <path className='acda-chart-grid' d={`M0 0.5H${SIZE.width}M0 ${SIZE.height / 2}H${SIZE.width}M0 ${SIZE.height - 0.5}H${SIZE.width}`} />
                {kind.form === 'line' ? (
                    <path className='acda-chart-line' d={line(points, end, top, SIZE)} />
                ) : (
                    bars(points, end, top, SIZE).map((bar, index) => <rect key={index} className='acda-chart-value' {...bar} />)
                )}
            </svg>
            <div className='acda-chart-axis acda-muted' aria-hidden='true'>
                <span>{span(SPAN_MS)} ago</span>
                <span>top: {kind.show(top)}</span>
                <span>now</span>
            </div>
        </figure>
    );
}

/** Lag, reports and sessions of the last hour. */
export function Charts({history, now}: {history: Minute[]; now: number}) {
    if (history.length === 0) {
        return <p className='acda-muted'>No minutes are recorded yet: the hub program started less than a minute ago.</p>;
    }
    const end = Math.max(now, history[history.length - 1]?.at ?? now);
    const isAway = history.some(it => !it.connected);
    return (
        <>
            <div className='acda-charts'>
                {KINDS.map(kind => (
                    <Chart key={kind.title} kind={kind} history={history} end={end} />
                ))}
            </div>
            {isAway && <p className='acda-muted'>Shaded minutes: the agent was not connected.</p>}
        </>
    );
}

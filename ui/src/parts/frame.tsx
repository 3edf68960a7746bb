import {React} from '../react';
import type {ReactNode} from 'react';
import type {Asked} from '../poll/use';
import {age} from '../text/format';
import {Mark} from './mark';
import {Long} from './text';

/** Changes shorter than this are not worth a banner: one failed request is often repeated with success. */
const STALE_MS = 15_000;

/** Why what is shown may be old, and the next step. Nothing while all is well. */
export function Banner({asked, now}: {asked: Asked<unknown>; now: number}) {
    const {poll, retry} = asked;
    const {failure, updatedAt} = poll;
    const isStale = failure !== null && (updatedAt === null || failure.lasting || now - updatedAt >= STALE_MS);
    return (
        <div role='status' aria-live='polite'>
            {isStale && failure !== null && (
                <div className='acda-banner'>
                    <Mark mood='bad' />
                    <span>
                        {updatedAt === null ? 'No data: ' : `Last updated ${age(updatedAt, now)} ago: `}
                        <Long text={failure.cause} />. Next step: <Long text={failure.next} />.
                    </span>
                    <button type='button' className='acda-button' onClick={retry} disabled={poll.phase === 'asking'}>
                        try now
                    </button>
                </div>
            )}
        </div>
    );
}

/** The data, or what is there instead. */
export function Answered<T>(props: {asked: Asked<T>; now: number; children: (data: T) => ReactNode}) {
    const {asked, now, children} = props;
    const {data, failure} = asked.poll;
    return (
        <>
            <Banner asked={asked} now={now} />
            {data !== null && children(data)}
            {data === null && failure === null && (
                <p className='acda-loading' role='status'>
                    Loading…
                </p>
            )}
        </>
    );
}

/** A titled box. */
export function Card({title, children}: {title: string; children: ReactNode}) {
    return (
        <section className='acda-card' aria-label={title}>
            <h3>{title}</h3>
            {children}
        </section>
    );
}

import {React} from '../react';
import type {Hop} from '../api/types';
import {Next} from '../parts/copy';
import {Mark, Word} from '../parts/mark';
import {Age, Long} from '../parts/text';
import {nameOf, stateWord} from './words';

/** The way at a glance: one station for each hop, joined by a line. */
function Strip({hops, now, show}: {hops: Hop[]; now: number; show: (index: number) => void}) {
    return (
        <ol className='acda-strip' aria-label='Way of this Application'>
            {hops.map((hop, index) => (
                <li key={index} className={`acda-station acda-line-${hop.state}`}>
                    <button type='button' onClick={() => show(index)}>
                        <Mark mood={hop.state} />
                        <span className='acda-station-name'>{nameOf(hop)}</span>
                        <span className='acda-hidden'>: {stateWord(hop)}</span>
                        <span className='acda-muted'>{hop.at === null ? '\u00a0' : <Age at={hop.at} now={now} />}</span>
                    </button>
                </li>
            ))}
        </ol>
    );
}

/** The hops of an Application, drawn as a path and then one by one. */
export function Hops({hops, now}: {hops: Hop[]; now: number}) {
    const list = React.useRef<HTMLOListElement>(null);
    const show = (index: number) => {
        const item = list.current?.children[index];
        if (item instanceof HTMLElement) {
            item.focus();
        }
    };
    return (
        <>
            <Strip hops={hops} now={now} show={show} />
            <ol ref={list} className='acda-hops' aria-label='Hops'>
                {hops.map((hop, index) => (
                    <li key={index} tabIndex={-1} className={`acda-hop acda-line-${hop.state}`}>
                        <div className='acda-hop-head'>
                            <strong>{nameOf(hop)}</strong>
                            <Word mood={hop.state}>{stateWord(hop)}</Word>
                            {hop.at !== null && (
                                <span className='acda-muted'>
                                    age <Age at={hop.at} now={now} />
                                </span>
                            )}
                        </div>
                        <Long text={hop.text} />
                        {hop.next !== null && <Next text={hop.next} />}
                    </li>
                ))}
            </ol>
        </>
    );
}

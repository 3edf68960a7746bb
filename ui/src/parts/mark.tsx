import {React} from '../react';
import type {Mood} from './mood';

/** One shape for each mood, so that colour is not the only sign: disc, square, triangle, octagon. */
const SHAPES: Record<Mood, {outline: string; sign: string}> = {
    good: {outline: 'M8 1a7 7 0 1 0 0 14a7 7 0 1 0 0-14Z', sign: 'M4.5 8.2l2.4 2.4l4.6-5'},
    unclear: {outline: 'M1.5 1.5h13v13h-13Z', sign: 'M6 6.2a2 2 0 1 1 2.6 2c-.5.2-.6.5-.6 1M8 11.2v.6'},
    waiting: {outline: 'M8 1L15.5 14.5H0.5Z', sign: 'M8 5.5v4M8 11.6v.6'},
    bad: {outline: 'M5 1h6l4 4v6l-4 4h-6l-4-4v-6Z', sign: 'M5.2 5.2l5.6 5.6M10.8 5.2l-5.6 5.6'},
};

/** The sign of a mood. The word beside it has its meaning, so screen readers skip it. */
export function Mark({mood}: {mood: Mood}) {
    const {outline, sign} = SHAPES[mood];
    return (
        <svg className={`acda-mark acda-is-${mood}`} viewBox='0 0 16 16' width='14' height='14' aria-hidden='true' focusable='false'>
            <path className='acda-mark-outline' d={outline} />
            <path className='acda-mark-sign' d={sign} />
        </svg>
    );
}

/** A word with the sign of its mood. */
export function Word({mood, children}: {mood: Mood; children: React.ReactNode}) {
    return (
        <span className='acda-word'>
            <Mark mood={mood} />
            <span className={`acda-text-${mood}`}>{children}</span>
        </span>
    );
}

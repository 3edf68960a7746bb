/** The steps of one delivery with their latencies. Pure. */

import type {Delivery} from '../api/types';

export const STEPS = ['sent', 'acknowledged', 'reported'] as const;
export type StepName = (typeof STEPS)[number];

export interface TimedStep {
    name: StepName;
    /** When; null if it has not happened. */
    at: number | null;
    /** Since the step before it that is known. */
    took: number | null;
    /** Part of the whole delivery, from 0 to 1. */
    share: number;
}

export interface Timed {
    steps: TimedStep[];
    /** From the write to the last known step. */
    total: number | null;
    /** The first step that has not happened; null if the delivery is complete. */
    open: StepName | null;
}

/** Clocks of one process, but a later step may have the same millisecond; never negative. */
function since(at: number | null, before: number | null): number | null {
    return at === null || before === null ? null : Math.max(0, at - before);
}

export function timed(delivery: Delivery): Timed {
    const {written} = delivery;
    let before = written;
    const steps = STEPS.map((name): TimedStep => {
        const at = delivery[name];
        const took = since(at, before);
        before = at ?? before;
        return {name, at, took, share: 0};
    });
    const total = since(before, written);
    for (const it of steps) {
        it.share = total ? (it.took ?? 0) / total : 0;
    }
    const last = steps.map(it => it.at !== null).lastIndexOf(true);
    // A step before a known one is done, even if its time is not recorded.
    return {steps, total: last === -1 ? null : total, open: STEPS[last + 1] ?? null};
}

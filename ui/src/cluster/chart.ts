/** Geometry of a chart. Pure. */

export interface Point {
    at: number;
    value: number;
}

export interface Size {
    width: number;
    height: number;
}

/** The last hour: the x axis of all charts. */
export const SPAN_MS = 3_600_000;

/** Minutes without a point break a line. */
const GAP_MS = 150_000;

const STEPS = [1, 2, 5, 10];

/** A round number that is at least the highest value; 1 for no values. */
export function ceiling(points: readonly Point[]): number {
    const highest = points.reduce((most, {value}) => Math.max(most, value), 0);
    if (highest <= 1) {
        return 1;
    }
    const power = 10 ** Math.floor(Math.log10(highest));
    return (STEPS.find(it => it * power >= highest) ?? 10) * power;
}

function x(at: number, end: number, {width}: Size): number {
    return Math.min(width, Math.max(0, width * (1 - (end - at) / SPAN_MS)));
}

function y(value: number, top: number, {height}: Size): number {
    return height - (height * Math.min(value, top)) / top;
}

const round = (number: number) => Math.round(number * 10) / 10;

/** The `d` of a line through the points, broken where minutes are missing. */
export function line(points: readonly Point[], end: number, top: number, size: Size): string {
    let before: number | null = null;
    const parts = points.map(({at, value}) => {
        const isNew = before === null || at - before > GAP_MS;
        before = at;
        return `${isNew ? 'M' : 'L'}${round(x(at, end, size))} ${round(y(value, top, size))}`;
    });
    return parts.join('');
}

export interface Bar {
    x: number;
    y: number;
    width: number;
    height: number;
}

/** A bar for each minute with a value. */
export function bars(points: readonly Point[], end: number, top: number, size: Size): Bar[] {
    const width = size.width / 60;
    return points
        .filter(({value}) => value > 0)
        .map(({at, value}) => {
            const [left, up] = [x(at, end, size), y(value, top, size)];
            return {x: round(Math.max(0, left - width)), y: round(up), width: round(width * 0.8), height: round(size.height - up)};
        });
}

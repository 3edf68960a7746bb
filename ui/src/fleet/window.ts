/** Only the visible part of a long list is in the page. Pure. */

/** Rows above and below the visible ones. */
const SPARE = 6;

export interface Place {
    /** Lines of the list: rows, or rows of squares. */
    lines: number;
    lineHeight: number;
    scrollTop: number;
    height: number;
}

/** The lines from `first` up to, without, `end`. */
export interface Range {
    first: number;
    end: number;
}

/** A list that became shorter is scrolled to its end, as the browser does it a moment later. */
export function visible({lines, lineHeight, scrollTop, height}: Place): Range {
    const top = Math.max(0, Math.min(scrollTop, lines * lineHeight - height));
    const first = Math.max(0, Math.floor(top / lineHeight) - SPARE);
    const end = Math.min(lines, Math.ceil((top + height) / lineHeight) + SPARE);
    return {first, end};
}

/** Indexes to draw, in order: those of the range, and the active line, so that its focus survives scrolling. */
export function drawn(range: Range, active: number | null): number[] {
    const indexes = Array.from({length: range.end - range.first}, (_, at) => range.first + at);
    if (active === null || (active >= range.first && active < range.end)) {
        return indexes;
    }
    return active < range.first ? [active, ...indexes] : [...indexes, active];
}

/** The index that a key leads to in a grid of `columns`; null if the key is not for the grid. */
export function moved(index: number, key: string, count: number, columns: number, page: number): number | null {
    const steps: Record<string, number> = {
        ArrowUp: -columns,
        ArrowDown: columns,
        PageUp: -columns * page,
        PageDown: columns * page,
        Home: -count,
        End: count,
    };
    if (columns > 1) {
        steps['ArrowLeft'] = -1;
        steps['ArrowRight'] = 1;
    }
    const by = Object.prototype.hasOwnProperty.call(steps, key) ? steps[key] : undefined;
    if (by === undefined || count === 0) {
        return null;
    }
    const to = index + by;
    const isVertical = key.startsWith('Arrow') && Math.abs(by) === columns && columns > 1;
    if (isVertical && (to < 0 || to >= count)) {
        return index;
    }
    return Math.min(count - 1, Math.max(0, to));
}

/** Where to scroll so that a line is visible; `head` is covered by the header at the top. */
export function scrolled(line: number, {lineHeight, scrollTop, height}: Place, head: number): number {
    const [top, bottom] = [line * lineHeight, (line + 1) * lineHeight];
    if (top < scrollTop) {
        return top;
    }
    const inner = height - head;
    return bottom > scrollTop + inner ? bottom - inner : scrollTop;
}

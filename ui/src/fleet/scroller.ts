/** Scrolling, keyboard and focus of a list of which only a part is in the page. */

import {React} from '../react';
import type {KeyboardEvent, RefObject} from 'react';
import {drawn, moved, scrolled, visible} from './window';

/** Width before the first measurement, and where nothing can be measured. */
const GUESSED_WIDTH = 900;

interface List {
    /** The keys of all elements, in order. */
    keys: readonly string[];
    /** Elements in a line; null: as many squares of this width as fit. */
    columns: number | null;
    cell: {width: number; height: number};
    /** Height before the first measurement. */
    height: number;
    /** Height of what covers the top of the list. */
    head: number;
    /** What remains when the list leaves the page and comes back. */
    memory: Memory;
}

export interface Memory {
    scrollTop: number;
    active: string | null;
    /** Whether to focus the active element when the list comes back. */
    focus: boolean;
}

export interface Scroller {
    ref: RefObject<HTMLDivElement>;
    columns: number;
    lines: number;
    /** Lines to draw, in order. */
    drawn: number[];
    /** The element that the Tab key reaches. */
    active: string | null;
    onScroll: () => void;
    onKeyDown: (event: KeyboardEvent) => void;
    onFocus: (key: string) => void;
}

/** Measures an element, again when its size changes. */
function useSize(ref: RefObject<HTMLElement>, guess: number): {width: number; height: number} {
    const [size, setSize] = React.useState({width: GUESSED_WIDTH, height: guess});
    React.useLayoutEffect(() => {
        const measure = () => {
            const {clientWidth: width, clientHeight: height} = ref.current ?? {clientWidth: 0, clientHeight: 0};
            if (width > 0 && height > 0) {
                setSize(old => (old.width === width && old.height === height ? old : {width, height}));
            }
        };
        measure();
        window.addEventListener('resize', measure);
        const observer = typeof ResizeObserver === 'undefined' || !ref.current ? null : new ResizeObserver(measure);
        if (observer && ref.current) {
            observer.observe(ref.current);
        }
        return () => {
            window.removeEventListener('resize', measure);
            observer?.disconnect();
        };
    }, [ref]);
    return size;
}

function elementOf(container: HTMLElement, key: string): HTMLElement | null {
    const all = container.querySelectorAll<HTMLElement>('[data-key]');
    return [...all].find(it => it.dataset['key'] === key) ?? null;
}

export function useScroller(list: List): Scroller {
    const {keys, cell, head, memory} = list;
    const ref = React.useRef<HTMLDivElement>(null);
    const size = useSize(ref, list.height);
    const [scrollTop, setScrollTop] = React.useState(memory.scrollTop);
    const [active, setActive] = React.useState(memory.active);
    const wantsFocus = React.useRef(memory.focus);
    const columns = list.columns ?? Math.max(1, Math.floor(size.width / cell.width));
    const lines = Math.ceil(keys.length / columns);
    const place = {lines, lineHeight: cell.height, scrollTop, height: size.height};

    const index = active === null ? -1 : keys.indexOf(active);
    const activeLine = index === -1 ? null : Math.floor(index / columns);

    React.useLayoutEffect(() => {
        if (ref.current && memory.scrollTop > 0) {
            ref.current.scrollTop = memory.scrollTop;
        }
        memory.focus = false;
    }, [memory]);

    React.useLayoutEffect(() => {
        if (wantsFocus.current && active !== null && ref.current) {
            wantsFocus.current = false;
            elementOf(ref.current, active)?.focus({preventScroll: true});
        }
    });

    const choose = (key: string | null) => {
        memory.active = key;
        setActive(key);
    };
    const scrollTo = (top: number) => {
        memory.scrollTop = top;
        setScrollTop(top);
        if (ref.current) {
            ref.current.scrollTop = top;
        }
    };
    const onKeyDown = (event: KeyboardEvent) => {
        if (event.altKey || event.ctrlKey || event.metaKey) {
            return;
        }
        const page = Math.max(1, Math.floor((size.height - head) / cell.height) - 1);
        const to = moved(Math.max(0, index), event.key, keys.length, columns, page);
        const key = to === null ? undefined : keys[to];
        if (to === null || key === undefined) {
            return;
        }
        event.preventDefault();
        wantsFocus.current = true;
        choose(key);
        const top = scrolled(Math.floor(to / columns), place, head);
        if (top !== scrollTop) {
            scrollTo(top);
        }
    };
    const onScroll = () => {
        const top = ref.current?.scrollTop ?? 0;
        memory.scrollTop = top;
        setScrollTop(top);
    };
    return {
        ref,
        columns,
        lines,
        drawn: drawn(visible(place), activeLine),
        active: index === -1 ? (keys[0] ?? null) : active,
        onScroll,
        onKeyDown,
        onFocus: choose,
    };
}

/** Texts for people: times, counts, and foreign text made harmless. Pure. */

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** A span of time in one unit, as `argocd-agentctl` prints it: `30s`, `60m`, `24h`, `10d`. Negative spans are `0s`. */
export function span(milliseconds: number): string {
    const ms = Number.isFinite(milliseconds) ? Math.max(0, milliseconds) : 0;
    if (ms < 2 * MINUTE) {
        return `${Math.floor(ms / SECOND)}s`;
    }
    if (ms < 2 * HOUR) {
        return `${Math.floor(ms / MINUTE)}m`;
    }
    return ms < 2 * DAY ? `${Math.floor(ms / HOUR)}h` : `${Math.floor(ms / DAY)}d`;
}

/** How long ago `since` is. */
export function age(since: number, now: number): string {
    return span(now - since);
}

/** How long until then; `ended` when that is over. */
export function left(until: number, now: number): string {
    return until > now ? span(until - now) : 'ended';
}

/** A short span with its unit: `12 ms`, `1.2 s`, `3 m 5 s`. Clocks may differ a little, so a negative span is `0 ms`. */
export function latency(milliseconds: number): string {
    const ms = Number.isFinite(milliseconds) ? Math.max(0, milliseconds) : 0;
    if (ms < SECOND) {
        return `${Math.round(ms)} ms`;
    }
    if (ms < MINUTE) {
        return `${(Math.floor(ms / 100) / 10).toFixed(1)} s`;
    }
    if (ms < HOUR) {
        return `${Math.floor(ms / MINUTE)} m ${Math.floor((ms % MINUTE) / SECOND)} s`;
    }
    return `${Math.floor(ms / HOUR)} h ${Math.floor((ms % HOUR) / MINUTE)} m`;
}

/** A moment in UTC, to the second. */
export function moment(at: number): string {
    const date = new Date(at);
    return Number.isNaN(date.getTime()) ? '' : date.toISOString().replace(/\.\d+Z$/, 'Z');
}

/** `1 cluster`, `2 clusters`. */
export function count(number: number, one: string, many = `${one}s`): string {
    return `${number} ${number === 1 ? one : many}`;
}

/** Control characters (but tab and line feed), and those that turn the direction of text or are invisible. */
const HARMFUL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** Foreign text without characters that deceive a reader. */
export function clean(text: string): string {
    return text.replace(/\r\n?/g, '\n').replace(HARMFUL, '\ufffd');
}

/** Foreign text in one line. */
export function oneLine(text: string): string {
    return clean(text).replace(/\s+/g, ' ').trim();
}

/** The beginning of a text, at most `most` characters, and whether that is all. Does not split a surrogate pair. */
export function cut(text: string, most: number): {text: string; isAll: boolean} {
    if (text.length <= most) {
        return {text, isAll: true};
    }
    const last = text.charCodeAt(most - 1);
    const end = last >= 0xd800 && last <= 0xdbff ? most - 1 : most;
    return {text: text.slice(0, end), isAll: false};
}

/** A command at the start of a text or after a colon, up to its end or a semicolon. */
const AFTER_COLON = /(?:^|: )((?:argocd-agentctl|kubectl|argocd|helm|clusteradm) [^;`]+)/;

const STARTS_AS_COMMAND = /^(?:argocd-agentctl|kubectl|argocd|helm|clusteradm) /;

/** The command in the text of a next step, in one line; null if there is none. */
export function command(next: string): string | null {
    const text = oneLine(next);
    const quoted = /`([^`]+)`/.exec(text)?.[1];
    if (quoted !== undefined && STARTS_AS_COMMAND.test(quoted)) {
        return quoted;
    }
    const found = AFTER_COLON.exec(text)?.[1];
    return found === undefined ? null : found.trim();
}

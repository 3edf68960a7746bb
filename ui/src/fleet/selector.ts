/** Label selectors as kubectl reads them: `a=b,c!=d,e in (x,y),f notin (z),g,!h`. Pure. */

export type Labels = ReadonlyMap<string, string>;

type Test = (labels: Labels) => boolean;

export type Selector = {matches: Test; error: null} | {matches: null; error: string};

const KEY = '[A-Za-z0-9./_-]+';
const VALUE = '[A-Za-z0-9._-]*';
const SET = new RegExp(`^(${KEY})\\s+(in|notin)\\s*\\(([^()]*)\\)$`);
const EQUAL = new RegExp(`^(${KEY})\\s*(==|=|!=)\\s*(${VALUE})$`);
const EXISTS = new RegExp(`^(!?)\\s*(${KEY})$`);

/** Longer selectors are refused. */
const LONGEST = 1000;

/** Parts between commas that are not inside of parentheses. */
function parts(text: string): string[] {
    return text.split(/,(?![^(]*\))/).map(it => it.trim());
}

function requirement(text: string): Test | null {
    const set = SET.exec(text);
    if (set) {
        const [, key = '', operator, list = ''] = set;
        const values = new Set(list.split(',').map(it => it.trim()));
        return operator === 'in'
            ? labels => labels.has(key) && values.has(labels.get(key) ?? '')
            : labels => !values.has(labels.get(key) ?? '') || !labels.has(key);
    }
    const equal = EQUAL.exec(text);
    if (equal) {
        const [, key = '', operator, value = ''] = equal;
        return operator === '!=' ? labels => labels.get(key) !== value : labels => labels.get(key) === value;
    }
    const exists = EXISTS.exec(text);
    if (exists) {
        const [, not, key = ''] = exists;
        return labels => labels.has(key) === (not === '');
    }
    return null;
}

/** Parses a selector. An empty one matches all. */
export function selector(text: string): Selector {
    if (text.length > LONGEST) {
        return {matches: null, error: 'the selector is too long'};
    }
    const tests: Test[] = [];
    for (const part of text.trim() === '' ? [] : parts(text)) {
        const test = requirement(part);
        if (!test) {
            return {matches: null, error: `"${part}" is no requirement such as key=value, key in (a,b) or !key`};
        }
        tests.push(test);
    }
    return {matches: labels => tests.every(test => test(labels)), error: null};
}

import {React} from '../react';
import {age, clean, cut, moment} from '../text/format';

/** Characters of a long text before "show all". */
const SHORT = 300;

/** More than this is never drawn. */
const LONGEST = 20_000;

/** Foreign text: cut, with a button for the rest. */
export function Long({text}: {text: string}) {
    const [isOpen, setOpen] = React.useState(false);
    const all = cut(clean(text), LONGEST);
    const short = cut(all.text, SHORT);
    if (short.isAll) {
        return <span className='acda-long'>{short.text}</span>;
    }
    return (
        <span className='acda-long'>
            {isOpen ? all.text : `${short.text}… `}
            {isOpen && !all.isAll && <em> … cut after {LONGEST} characters </em>}
            <button type='button' className='acda-inline' aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
                {isOpen ? 'show less' : 'show all'}
            </button>
        </span>
    );
}

/** How long ago, with the moment as its title. */
export function Age({at, now}: {at: number | null; now: number}) {
    if (at === null) {
        return <span>-</span>;
    }
    return (
        <time dateTime={moment(at)} title={moment(at)}>
            {age(at, now)}
        </time>
    );
}

import {React} from '../react';
import {command, oneLine} from '../text/format';
import {Long} from './text';

/** How long the button shows the outcome. */
const SHOWN_MS = 2_000;

/** Without a secure context there is no clipboard interface: the selection of a text field is copied. */
function copyBySelection(text: string): boolean {
    const field = document.createElement('textarea');
    field.value = text;
    field.className = 'acda-off';
    field.setAttribute('aria-hidden', 'true');
    const focused = document.activeElement;
    document.body.appendChild(field);
    field.select();
    let isCopied = false;
    try {
        isCopied = document.execCommand('copy');
    } catch {
        isCopied = false;
    }
    field.remove();
    if (focused instanceof HTMLElement) {
        focused.focus({preventScroll: true});
    }
    return isCopied;
}

async function copy(text: string): Promise<boolean> {
    try {
        await navigator.clipboard.writeText(text);
        return true;
    } catch {
        return copyBySelection(text);
    }
}

const OUTCOMES = {none: 'copy', copied: 'copied', failed: 'not copied: select the text'};

/** Copies a text. Its label has the outcome for two seconds. */
export function Copy({text, of}: {text: string; of: string}) {
    const [outcome, setOutcome] = React.useState<keyof typeof OUTCOMES>('none');
    const timer = React.useRef<number | undefined>(undefined);
    const isMounted = React.useRef(true);
    React.useEffect(() => {
        isMounted.current = true;
        return () => {
            isMounted.current = false;
            window.clearTimeout(timer.current);
        };
    }, []);
    const onClick = async () => {
        const isCopied = await copy(text);
        if (isMounted.current) {
            setOutcome(isCopied ? 'copied' : 'failed');
            window.clearTimeout(timer.current);
            timer.current = window.setTimeout(() => setOutcome('none'), SHOWN_MS);
        }
    };
    return (
        <span>
            <button type='button' className='acda-button' aria-label={`copy ${of}`} onClick={onClick}>
                {OUTCOMES[outcome]}
            </button>
            <span role='status' className='acda-hidden'>
                {outcome === 'none' ? '' : OUTCOMES[outcome]}
            </span>
        </span>
    );
}

/** A next step, with a button that copies its command. */
export function Next({text}: {text: string}) {
    const found = command(text);
    return (
        <div className='acda-next'>
            <span className='acda-label'>Next step</span> <Long text={text} />
            {found !== null && (
                <div className='acda-command'>
                    <code>{oneLine(found)}</code>
                    <Copy text={found} of='the command' />
                </div>
            )}
        </div>
    );
}

import {React} from '../react';
import type {Question} from '../api/question';
import type {Poll} from './machine';
import {pollerOf} from './poller';

export interface Asked<T> {
    poll: Poll<T>;
    retry: () => void;
}

/** The answer to a question, kept up to date. Data of another question are never shown. */
export function usePoll<T>(question: Question<T>): Asked<T> {
    const {key} = question;
    const poller = React.useMemo(() => pollerOf(question), [key]);
    const [, setSeen] = React.useState<Poll<T>>(poller.current());
    React.useEffect(() => poller.subscribe(() => setSeen(poller.current())), [poller]);
    return {poll: poller.current(), retry: poller.retry};
}

const TICK_MS = 5_000;

/** The time now, refreshed every five seconds while the page is visible. */
export function useNow(): number {
    const [now, setNow] = React.useState(Date.now());
    React.useEffect(() => {
        const tick = () => {
            if (!document.hidden) {
                setNow(Date.now());
            }
        };
        const timer = window.setInterval(tick, TICK_MS);
        document.addEventListener('visibilitychange', tick);
        return () => {
            window.clearInterval(timer);
            document.removeEventListener('visibilitychange', tick);
        };
    }, []);
    return now;
}

import {React} from '../react';
import type {ViewProps} from '../argocd';
import {useWay} from '../delivery/asked';
import {clockOffset} from '../poll/machine';
import {useNow} from '../poll/use';
import {Word} from '../parts/mark';
import {cut} from '../text/format';
import {summary} from './summary';

/** Characters of a cause: the panel has little room, the tab shows all. */
const SHORT = 200;

function short(text: string): string {
    const {text: start, isAll} = cut(text, SHORT);
    return isAll ? start : `${start}…`;
}

/** The item "Agent" of Argo CD's status panel. Nothing for Applications that stay on the hub. */
export function PanelItem({application, openFlyout}: ViewProps) {
    const {poll} = useWay(application);
    const now = useNow();
    const {data, failure} = poll;
    if (data === null && failure === null) {
        return null;
    }
    const there = now + clockOffset(data?.generatedAt ?? null, poll.freshAt);
    const content = data && summary(data, there);
    if (data !== null && content === null) {
        return null;
    }
    const cause = content?.cause ?? null;
    return (
        <div className='acda application-status-panel__item acda-panel' role='group' aria-label='Agent'>
            <div className='acda-panel-head'>
                <span className='acda-panel-title'>AGENT</span>
                {openFlyout && (
                    <button type='button' className='acda-button' onClick={() => openFlyout()} aria-label='Details of the delivery'>
                        Details
                    </button>
                )}
            </div>
            {content && (
                <>
                    <div className='acda-panel-value'>
                        <Word mood={content.mood}>{content.agent}</Word>
                    </div>
                    <div>Last delivery: {content.delivery}</div>
                    {content.lag !== null && <div>Lag: {content.lag}</div>}
                    {cause !== null && (
                        <div className='acda-panel-cause' title={cut(cause, 1000).text}>
                            {short(cause)}
                        </div>
                    )}
                </>
            )}
            {failure !== null && (data === null || failure.lasting) && (
                <div className='acda-panel-cause' title={failure.next}>
                    <div className='acda-panel-value'>
                        {failure.blocked ? <Word mood='bad'>blocked</Word> : <Word mood='unclear'>not known</Word>}
                    </div>
                    {short(failure.cause)}; next step: {short(failure.next)}
                </div>
            )}
        </div>
    );
}

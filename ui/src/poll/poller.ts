/** Carries out the effects of the machine: timers, requests, visibility of the page. */

import {ask} from '../api/request';
import type {Question} from '../api/question';
import {initial, step} from './machine';
import type {Effect, Input, Poll} from './machine';

type Listener = () => void;

/** Asks one question again and again, while there is a listener and the page is visible. */
export class Poller<T> {
    private poll: Poll<T> = initial();
    private readonly listeners = new Set<Listener>();
    private timer: number | undefined;
    private request: AbortController | undefined;

    constructor(private readonly question: Question<T>) {}

    /** What is known now. The same object until something changes. */
    current(): Poll<T> {
        return this.poll;
    }

    isIdle(): boolean {
        return this.listeners.size === 0;
    }

    /** Starts with the first listener, stops with the last. */
    subscribe(listener: Listener): () => void {
        if (this.isIdle()) {
            document.addEventListener('visibilitychange', this.onVisibility);
            this.listeners.add(listener);
            this.input({kind: 'start', hidden: document.hidden});
        } else {
            this.listeners.add(listener);
        }
        return () => {
            if (this.listeners.delete(listener) && this.isIdle()) {
                document.removeEventListener('visibilitychange', this.onVisibility);
                this.input({kind: 'stop'});
            }
        };
    }

    /** Asks now. */
    readonly retry = (): void => this.input({kind: 'retry'});

    private readonly onVisibility = (): void => {
        this.input(document.hidden ? {kind: 'hidden'} : {kind: 'visible', now: Date.now()});
    };

    private input(input: Input<T>): void {
        const {poll, effect} = step(this.poll, input);
        this.poll = poll;
        this.carryOut(effect);
        for (const listener of [...this.listeners]) {
            listener();
        }
    }

    private carryOut(effect: Effect): void {
        switch (effect.kind) {
            case 'ask':
                this.cancel();
                void this.send();
                break;
            case 'wait':
                this.cancel();
                this.timer = window.setTimeout(() => this.input({kind: 'due'}), effect.ms);
                break;
            case 'cancel':
                this.cancel();
                break;
            case 'none':
                break;
        }
    }

    private cancel(): void {
        window.clearTimeout(this.timer);
        this.request?.abort();
        this.request = undefined;
    }

    private async send(): Promise<void> {
        const request = new AbortController();
        this.request = request;
        const answer = await ask(this.question, this.poll.data === null ? null : this.poll.etag, request.signal);
        // A cancelled request has no answer: another one may be open.
        if (this.request === request) {
            this.input({kind: 'answer', answer, now: Date.now(), random: Math.random()});
        }
    }
}

/** Idle pollers that keep their data, so that a page is there at once when a user returns to it. */
const MOST_IDLE = 8;

const pollers = new Map<string, Poller<unknown>>();

/** The one poller of this question: a status panel and a tab share their requests. */
export function pollerOf<T>(question: Question<T>): Poller<T> {
    const known = pollers.get(question.key);
    const poller = known ?? new Poller<unknown>(question);
    pollers.delete(question.key);
    pollers.set(question.key, poller);
    const idle = [...pollers].filter(([key, it]) => key !== question.key && it.isIdle());
    for (const [key] of idle.slice(0, Math.max(0, idle.length - MOST_IDLE))) {
        pollers.delete(key);
    }
    return poller as Poller<T>;
}

/** For tests: no data of earlier questions. */
export function forgetAll(): void {
    pollers.clear();
}

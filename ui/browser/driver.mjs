// Drives a browser for the tests in tests/e2e/ui and the benchmark `ui`. It reads one request a line, JSON, from standard input, and writes
// one answer a line.
//
// A small server gives the browser one origin: the stand-in for Argo CD's shell below /shell/, with a strict content-security policy, and
// everything else from the argocd-server that the first line names, which the viewer's cookie authenticates.

import {readFile} from 'node:fs/promises';
import http from 'node:http';
import https from 'node:https';
import {createRequire} from 'node:module';
import path from 'node:path';
import readline from 'node:readline';
import {chromium} from 'playwright-core';

const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js');

const POLICY = [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "font-src 'self'",
    "connect-src 'self'",
    "base-uri 'self'",
    "form-action 'none'",
    "frame-ancestors 'none'",
].join('; ');

const TYPES = {'.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8', '.css': 'text/css; charset=utf-8'};

const POLL_MS = 100;
const ANSWER_MS = 5000;
/** Longer texts of a page are cut in an error. */
const SHOWN = 4000;

const lines = readline.createInterface({input: process.stdin})[Symbol.asyncIterator]();
const {value: first} = await lines.next();
const {argocd, executable, shell, direct} = JSON.parse(first);

// ---------------------------------------------------------------------------------------------------- the server

async function file(name, response, headers = {}) {
    const content = await readFile(path.join(shell, name));
    response.writeHead(200, {'content-type': TYPES[path.extname(name)] ?? 'application/octet-stream', ...headers});
    response.end(content);
}

/** argocd-server has signed its certificate itself, for `localhost`. */
function forward(request, response) {
    const upstream = https.request(
        {
            host: argocd.host,
            port: 443,
            servername: 'localhost',
            ca: argocd.certificate,
            method: request.method,
            path: request.url,
            headers: {...request.headers, host: `${argocd.host}:443`, connection: 'close'},
        },
        answer => {
            response.writeHead(answer.statusCode, answer.headers);
            answer.pipe(response);
        },
    );
    upstream.on('error', error => {
        console.error(`${request.url}: ${error}`);
        response.writeHead(502, {'content-type': 'text/plain'});
        response.end(String(error));
    });
    request.pipe(upstream);
}

const server = http.createServer((request, response) => {
    const {pathname} = new URL(request.url, 'http://localhost');
    const gone = () => {
        response.writeHead(404);
        response.end();
    };
    if (pathname.startsWith('/shell-files/')) {
        file(path.basename(pathname), response).catch(gone);
    } else if (pathname.startsWith('/shell/')) {
        file('shell.html', response, {'content-security-policy': POLICY}).catch(gone);
    } else if (pathname === '/favicon.ico') {
        gone();
    } else {
        forward(request, response);
    }
});
await new Promise(resolve => server.listen(0, '127.0.0.1', resolve));
const origin = direct ?? `http://127.0.0.1:${server.address().port}`;

// --------------------------------------------------------------------------------------------------- the browser

const browser = await chromium.launch({
    executablePath: executable,
    headless: true,
    args: ['--disable-dev-shm-usage', '--disable-background-networking', '--disable-component-update'],
});
let context = null;
let page = null;
/** What a page must not do: refused by its policy, thrown, or executed from a text. */
let faults = [];
let loads = 0;
/** Requests of the page that have no end yet, streams too. */
let pending = new Set();

/** Runs in every page before its own scripts. */
function watch() {
    window.addedFaults = [];
    window.longTasks = [];
    document.addEventListener('securitypolicyviolation', event => {
        window.addedFaults.push(`policy ${event.effectiveDirective}: ${event.blockedURI} ${event.sample}`);
    });
    new PerformanceObserver(list => {
        window.longTasks.push(...list.getEntries().map(entry => entry.duration));
    }).observe({type: 'longtask', buffered: true});
}

async function newPage(theme) {
    await context?.close();
    context = await browser.newContext({
        viewport: {width: 1280, height: 800},
        colorScheme: theme,
        reducedMotion: 'reduce',
        ignoreHTTPSErrors: true,
        locale: 'en-GB',
        timezoneId: 'UTC',
    });
    context.setDefaultTimeout(30_000);
    await context.addInitScript(watch);
    faults = [];
    loads = 0;
    pending = new Set();
    page = await context.newPage();
    page.on('request', request => pending.add(request));
    page.on('requestfinished', request => pending.delete(request));
    page.on('requestfailed', request => {
        pending.delete(request);
        if (request.resourceType() === 'script') {
            faults.push(`not loaded: ${request.url()}: ${request.failure()?.errorText}`);
        }
    });
    page.on('response', response => {
        if (response.request().resourceType() === 'script' && !response.ok()) {
            faults.push(`not loaded: ${response.url()}: status ${response.status()}`);
        }
    });
    page.on('load', () => {
        loads += 1;
    });
    page.on('pageerror', error => faults.push(`thrown: ${error}`));
    page.on('dialog', dialog => {
        faults.push(`dialog: ${dialog.message()}`);
        return dialog.dismiss();
    });
}

async function shown(selector = 'body') {
    return page.locator(selector).first().innerText({timeout: 1000}).catch(() => '');
}

function locate({role, name, selector}) {
    const found = selector ? page.locator(selector) : page.getByRole(role, {name});
    return found.first();
}

/** The name and the role of the focused element, as a user of the keyboard meets it. */
function focused() {
    const element = document.activeElement;
    const name = element?.getAttribute('aria-label') || element?.innerText || element?.getAttribute('placeholder') || '';
    return {
        role: element?.getAttribute('role') ?? element?.tagName.toLowerCase() ?? '',
        name: name.trim().slice(0, 200),
        key: element?.getAttribute('data-key') ?? null,
        table: element?.closest('[role=table]')?.getAttribute('aria-label') ?? null,
    };
}

const COMMANDS = {
    /** A new page, with the cookie of a viewer. */
    async viewer({token, theme}) {
        await newPage(theme);
        await context.addCookies([{name: 'argocd.token', value: token, url: origin}]);
    },
    /** Answers requests whose URL contains a text, in place of argocd-server. */
    async answer({containing, body}) {
        await page.route(
            url => url.href.includes(containing),
            route => route.fulfill({contentType: 'application/json', body}),
        );
    },
    async open({path: target}) {
        await page.goto(new URL(target, origin).href, {waitUntil: 'load'});
    },
    /** Waits until the page shows all texts, and none of the others. */
    async until({texts, without = [], selector, within}) {
        const end = Date.now() + within;
        for (;;) {
            const text = await shown(selector);
            const missing = texts.filter(it => !text.includes(it));
            const left = without.filter(it => text.includes(it));
            if (missing.length === 0 && left.length === 0) {
                return text;
            }
            if (Date.now() > end) {
                throw new Error(`not within ${within} ms: ${JSON.stringify({missing, left})}`);
            }
            await new Promise(resolve => setTimeout(resolve, POLL_MS));
        }
    },
    count: ({selector}) => page.locator(selector).count(),
    click: target => locate(target).click(),
    fill: ({value, ...target}) => locate(target).fill(value),
    choose: ({value, ...target}) => locate(target).selectOption(value).then(() => null),
    press: ({key}) => page.keyboard.press(key),
    type: ({value}) => page.keyboard.type(value),
    focused: () => page.evaluate(focused),
    scroll: ({selector, by}) => page.locator(selector).first().evaluate((element, top) => element.scrollBy(0, top), by),
    /** A request that the page could send: its status and its body. */
    request: ({path: target, headers}) =>
        page.evaluate(
            async ([url, sent]) => {
                const answer = await fetch(url, {headers: sent, cache: 'no-store'});
                return {status: answer.status, body: (await answer.text()).slice(0, 1 << 20)};
            },
            [target, headers],
        ),
    /** Everything that the page was refused, threw or executed; `window.executed` is what hostile texts set. */
    async faults({executedOnly = false} = {}) {
        const executed = await page.evaluate(() => (window.executed ? ['a text was executed'] : []));
        return executedOnly ? executed : [...faults, ...(await page.evaluate(() => window.addedFaults)), ...executed];
    },
    /** The longest task of the page so far, in milliseconds. */
    longest: () => page.evaluate(() => Math.max(0, ...window.longTasks)),
    /** How often this page was loaded. */
    loads: () => loads,
    /** What axe-core finds serious or critical: rule, and the elements. */
    async axe() {
        await page.evaluate(await readFile(AXE, 'utf8'));
        const found = await page.evaluate(() => window.axe.run('.acda', {resultTypes: ['violations']}));
        const serious = found.violations.filter(it => ['serious', 'critical'].includes(it.impact));
        return serious.map(({id, nodes}) => `${id}: ${nodes.map(node => node.html.slice(0, 200)).join(' | ')}`);
    },
    async picture({file: target}) {
        await page.screenshot({path: target, animations: 'disabled', caret: 'hide'});
    },
};

/** The answer of a page, or another value when the page is too busy to answer. */
function soon(answer, otherwise) {
    return Promise.race([answer, new Promise(resolve => setTimeout(() => resolve(otherwise), ANSWER_MS))]);
}

async function run(line) {
    const {do: name, ...parameters} = JSON.parse(line);
    try {
        const result = await COMMANDS[name](parameters);
        return {result: result ?? null};
    } catch (error) {
        const text = page === null ? '' : await soon(shown(), '(the page does not answer)');
        const seen = page === null ? [] : await soon(COMMANDS.faults().catch(() => faults), faults);
        return {error: `${error.message}`, url: page?.url() ?? '', shown: text.slice(0, SHOWN), faults: seen, pending: [...pending].map(it => it.url())};
    }
}

process.stdout.write(`${JSON.stringify({result: origin})}\n`);
for await (const line of lines) {
    process.stdout.write(`${JSON.stringify(await run(line))}\n`);
}
await browser.close();
server.close();
server.closeAllConnections();

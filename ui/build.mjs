// Builds the extension: node build.mjs [--check | --shell | --tests]
//
//   (none)    writes manifests/hub/extension/extension-argocd-agent.js
//   --check   fails if that file is not what the sources give
//   --shell   writes the stand-in for Argo CD's shell to target/ui/shell
//   --tests   writes the unit tests to ui/node_modules/.tests, where they find their packages
//
// With UI_MODULES, esbuild comes from node_modules of that folder.
import {cp, mkdir, readFile, readdir, rm, writeFile} from 'node:fs/promises';
import {createRequire} from 'node:module';
import {dirname, join, relative} from 'node:path';
import {fileURLToPath} from 'node:url';
import {gzipSync} from 'node:zlib';

const here = dirname(fileURLToPath(import.meta.url));
const esbuild = createRequire(join(process.env.UI_MODULES ?? here, 'package.json'))('esbuild');
const root = dirname(here);
const BUNDLE = join(root, 'manifests/hub/extension/extension-argocd-agent.js');
const TARGET = join(root, 'target/ui');
const MOST_GZIP_BYTES = 150 * 1024;

const {version} = JSON.parse(await readFile(join(here, 'package.json'), 'utf8'));
const BANNER = `/*! Argo CD Agent for Open Cluster Management ${version}: pages inside Argo CD's UI. SPDX-License-Identifier: Apache-2.0
 * Built from ui/ by "npm run build"; do not edit. */`;

/** A style sheet is a text of the bundle, without its spaces and comments. */
const css = {
    name: 'css',
    setup(build) {
        build.onLoad({filter: /\.css$/}, async ({path}) => {
            const text = await readFile(path, 'utf8');
            const {code} = await esbuild.transform(text, {loader: 'css', minify: true, target: 'chrome100'});
            return {contents: code.trim(), loader: 'text'};
        });
    },
};

/** Options of all that runs in a browser. No path and no time of this machine gets into the result. */
const COMMON = {
    absWorkingDir: here,
    bundle: true,
    charset: 'ascii',
    format: 'iife',
    legalComments: 'none',
    logLevel: 'warning',
    platform: 'browser',
    plugins: [css],
    target: ['es2020'],
    tsconfigRaw: {compilerOptions: {jsx: 'react', jsxFactory: 'React.createElement', jsxFragmentFactory: 'React.Fragment'}},
    write: false,
};

async function bundle() {
    const options = {...COMMON, entryPoints: ['src/extension.tsx'], minify: true, banner: {js: BANNER}};
    const {outputFiles} = await esbuild.build(options);
    return outputFiles[0].text;
}

function fail(text) {
    console.error(text);
    process.exit(1);
}

async function check() {
    const committed = await readFile(BUNDLE, 'utf8').catch(() => '');
    if (committed !== (await bundle())) {
        fail(`${relative(root, BUNDLE)} is not what ui/ gives. Next: run "npm ci && npm run build" in ui/ and commit the file.`);
    }
}

function report(text) {
    const gzip = gzipSync(text, {level: 9}).length;
    if (gzip > MOST_GZIP_BYTES) {
        fail(`the bundle has ${gzip} bytes after gzip; at most ${MOST_GZIP_BYTES} are allowed`);
    }
    console.log(`${relative(root, BUNDLE)}: ${Buffer.byteLength(text)} bytes, ${gzip} after gzip`);
}

/** React as Argo CD has it: `window.React` and `window.ReactDOM`. */
async function react(major, mode) {
    const contents = `
        import * as React from 'react-${major}';
        import * as ReactDOM from 'react-dom-${major}';
        ${major === 16 ? '' : `import {createRoot} from 'react-dom-${major}/client';`}
        window.React = React;
        window.ReactDOM = ${major === 16 ? 'ReactDOM' : '{...ReactDOM, createRoot}'};`;
    const {outputFiles} = await esbuild.build({
        ...COMMON,
        stdin: {contents, resolveDir: here},
        alias: {react: `react-${major}`, 'react-dom': `react-dom-${major}`},
        define: {'process.env.NODE_ENV': JSON.stringify(mode)},
        minify: mode === 'production',
    });
    return outputFiles[0].text;
}

async function writeReacts(folder, mode) {
    for (const major of [16, 19]) {
        await writeFile(join(folder, `react-${major}.js`), await react(major, mode));
    }
}

async function shell() {
    const folder = join(TARGET, 'shell');
    await rm(folder, {recursive: true, force: true});
    await mkdir(folder, {recursive: true});
    await writeReacts(folder, 'production');
    const {outputFiles} = await esbuild.build({...COMMON, entryPoints: ['browser/shell.ts']});
    await writeFile(join(folder, 'shell.js'), outputFiles[0].text);
    for (const name of ['shell.html', 'shell.css']) {
        await cp(join(here, 'browser', name), join(folder, name));
    }
    await writeFile(join(folder, 'extension-argocd-agent.js'), await bundle());
    console.log(relative(root, folder));
}

async function tests() {
    const folder = join(here, 'node_modules/.tests');
    await rm(folder, {recursive: true, force: true});
    await mkdir(folder, {recursive: true});
    await writeReacts(folder, 'development');
    const names = (await readdir(join(here, 'tests'))).filter(name => /\.test\.tsx?$/.test(name));
    const {outputFiles} = await esbuild.build({
        ...COMMON,
        entryPoints: names.map(name => `tests/${name}`),
        external: ['happy-dom', 'node:*'],
        format: 'esm',
        outdir: folder,
        outExtension: {'.js': '.mjs'},
        platform: 'node',
    });
    for (const {path, text} of outputFiles) {
        await writeFile(path, text);
    }
}

const verbs = {undefined: async () => {
    const text = await bundle();
    await mkdir(dirname(BUNDLE), {recursive: true});
    await writeFile(BUNDLE, text);
    report(text);
}, '--check': check, '--shell': shell, '--tests': tests};
const verb = verbs[process.argv[2]];
await (verb ?? (() => fail(`unknown argument ${process.argv[2]}`)))();

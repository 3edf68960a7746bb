// Runs the unit tests once with each React that Argo CD has had.
import {spawnSync} from 'node:child_process';
import {readdirSync} from 'node:fs';
import {fileURLToPath} from 'node:url';

const folder = fileURLToPath(new URL('../node_modules/.tests/', import.meta.url));
const files = readdirSync(folder).filter(name => name.endsWith('.test.mjs'));
for (const react of ['16', '19']) {
    console.log(`React ${react}`);
    const {status} = spawnSync(process.execPath, ['--test', '--test-reporter=dot', ...files], {
        cwd: folder,
        env: {...process.env, REACT: react, TZ: 'UTC'},
        stdio: 'inherit',
    });
    if (status !== 0) {
        process.exit(status ?? 1);
    }
}

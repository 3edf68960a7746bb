import css from './style.css';

let isInstalled = false;

/** Adds our rules once. A sheet that a script makes is no inline style, so a strict content-security policy allows it. */
export function installStyle(): void {
    if (isInstalled) {
        return;
    }
    isInstalled = true;
    try {
        const sheet = new CSSStyleSheet();
        sheet.replaceSync(css);
        document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
    } catch {
        // Browsers without constructable sheets.
        const element = document.createElement('style');
        element.textContent = css;
        document.head.appendChild(element);
    }
}

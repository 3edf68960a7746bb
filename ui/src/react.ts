import type * as ReactTypes from 'react';

/** Argo CD's React. An extension must not bring its own: hooks work only with the React that renders the page. */
export const React: typeof ReactTypes = window.React;

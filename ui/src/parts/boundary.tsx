import {React} from '../react';
import type {ErrorInfo, ReactNode} from 'react';

interface Props {
    children: ReactNode;
}

/** An error of these pages must not take Argo CD's page with it. */
export class Boundary extends React.Component<Props, {cause: string | null}> {
    override state = {cause: null as string | null};

    static getDerivedStateFromError(error: unknown) {
        return {cause: error instanceof Error ? error.message : String(error)};
    }

    override componentDidCatch(error: unknown, info: ErrorInfo) {
        console.error('argocd-agent: a page failed', error, info.componentStack);
    }

    override render() {
        if (this.state.cause === null) {
            return this.props.children;
        }
        return (
            <div className='acda acda-banner' role='alert'>
                This page of the Argo CD Agent add-on failed: {this.state.cause.slice(0, 300)}. Next step: reload the page; the other
                pages of Argo CD are not affected.{' '}
                <button type='button' className='acda-button' onClick={() => this.setState({cause: null})}>
                    try again
                </button>
            </div>
        );
    }
}

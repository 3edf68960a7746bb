/** Registers the pages at Argo CD. argocd-server serves this file as part of `extensions.js`. */

import {React} from './react';
import type {ViewProps} from './argocd';
import {mayDisplay} from './delivery/known';
import {DeliveryPage} from './delivery/page';
import {FleetPage} from './fleet/page';
import {PanelItem} from './panel/item';
import {Boundary} from './parts/boundary';
import {installStyle} from './style/install';

const ID = 'argocd-agent';

function Delivery({application}: ViewProps) {
    return (
        <Boundary>
            <DeliveryPage application={application} />
        </Boundary>
    );
}

function Panel(props: ViewProps) {
    return (
        <Boundary>
            <PanelItem {...props} />
        </Boundary>
    );
}

function Fleet() {
    return (
        <Boundary>
            <FleetPage />
        </Boundary>
    );
}

const api = window.extensionsAPI;
if (api) {
    installStyle();
    api.registerStatusPanelExtension?.(Panel, 'Agent', ID, Delivery);
    api.registerAppViewExtension?.(Delivery, 'Delivery', 'fa-route', mayDisplay);
    api.registerSystemLevelExtension?.(Fleet, 'Fleet', '/fleet', 'fa-satellite-dish');
}

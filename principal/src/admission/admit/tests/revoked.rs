//! Revoked agents and clusters.

use super::*;

#[tokio::test]
async fn revoked_agent_loses_tokens_streams_and_session() {
    let setup = setup(&[("spoke1", Mode::Managed), ("spoke2", Mode::Managed)]);
    let (peer, other) = (setup.peer("spoke1"), setup.peer("spoke2"));
    let tokens = setup
        .gate
        .authenticate(&peer, None, request("managed"))
        .await
        .unwrap();
    let shown = Credentials::of_certificate(peer.certificate.as_ref().unwrap());
    let fingerprint = format!("{:?}", shown.binding);
    for key in ["cluster.spoke1", fingerprint.as_str()] {
        setup
            .revoked
            .send_replace(Some(Arc::new(Revoked::read([key]))));
        let again = setup
            .gate
            .authenticate(&peer, None, request("managed"))
            .await;
        assert_eq!(again.unwrap_err(), Refusal::Revoked);
        assert_eq!(
            setup.gate.admit(&peer, &tokens.access_token).unwrap_err(),
            Refusal::Revoked
        );
        assert_eq!(
            setup
                .gate
                .refresh(&peer, &tokens.refresh_token)
                .unwrap_err(),
            Refusal::Revoked
        );
        let verdict = setup.gate.verdict(&name("spoke1"), Mode::Managed, &shown);
        assert_eq!(verdict, Some(End::Revoked));
        assert!(
            setup
                .gate
                .authenticate(&other, None, request("managed"))
                .await
                .is_ok()
        );
    }
    setup.revoked.send_replace(None);
    let unknown = setup
        .gate
        .authenticate(&other, None, request("managed"))
        .await;
    assert_eq!(
        unknown.unwrap_err(),
        Refusal::NotActive("starting".to_owned())
    );
}

#[tokio::test]
async fn revoked_cluster_stays_rejected_with_any_certificate() {
    let setup = setup(&[("spoke1", Mode::Managed), ("spoke2", Mode::Managed)]);
    let peer = setup.peer("spoke1");
    let tokens = setup
        .gate
        .authenticate(&peer, None, request("managed"))
        .await
        .unwrap();
    assert_eq!(setup.verdict(Mode::Managed), None);
    setup.counts(Certificates::Revoked);
    assert_eq!(setup.verdict(Mode::Managed), Some(End::Revoked));
    let refusals = [
        setup
            .gate
            .authenticate(&peer, None, request("managed"))
            .await
            .map(drop),
        setup.gate.refresh(&peer, &tokens.refresh_token).map(drop),
        setup.gate.admit(&peer, &tokens.access_token).map(drop),
    ];
    assert_eq!(refusals, [const { Err(Refusal::Revoked) }; 3]);
    let reply = setup.reports.borrow()["spoke1"].last_error.clone();
    assert_eq!(reply.as_deref(), Some("the agent's certificate is revoked"));
}

#[tokio::test]
async fn after_a_change_of_key_only_certificates_with_its_unit_count() {
    let setup = setup(&[("spoke1", Mode::Managed)]);
    setup.counts(Certificates::WithUnit("key-2".to_owned()));
    assert_eq!(setup.verdict(Mode::Managed), Some(End::Revoked));
    let new = |unit| Peer {
        address: ([127, 0, 0, 1], 1).into(),
        certificate: Some(Arc::new(
            setup
                .authority
                .agent_of_unit("spoke1", unit)
                .peer_certificate(),
        )),
        header: None,
        connection: Connection::default(),
    };
    let come = async |peer: Peer| {
        let come = setup.gate.authenticate(&peer, None, request("managed"));
        come.await.map(drop)
    };
    assert_eq!(come(setup.peer("spoke1")).await, Err(Refusal::Revoked));
    assert_eq!(come(new("key-1")).await, Err(Refusal::Revoked));
    assert_eq!(come(new("key-2")).await, Ok(()));
}

//! The program on the command line: it reports errors, also before it can log.

#![expect(clippy::unwrap_used, reason = "a test file: every helper is a test's")]

use std::process::Command;

fn stated(arguments: &[&str]) -> (bool, String) {
    let ended = Command::new(env!("CARGO_BIN_EXE_addon-manager"))
        .args(arguments)
        .env_clear()
        .output()
        .unwrap();
    let text = String::from_utf8(ended.stderr).unwrap();
    (ended.status.success(), text)
}

#[test]
fn a_wrong_setting_ends_the_program_with_its_name() {
    for (arguments, name) in [
        (&["principal", "--auth=bogus"][..], "--auth"),
        (&["principal", "--listen-host=nowhere"], "--listen-host"),
        (&["principal", "--tls-cert=/x"], "--tls-key"),
        (&["principal", "--log-level=loudly=x=y"], "log level"),
        (&["principal", "--listen-port=99999"], "--listen-port"),
        (&["--principal-address=https://x"], "--principal-address"),
        (&["--kubeconfig=/nowhere"], "/nowhere"),
        (&["--no-such-flag"], "--no-such-flag"),
    ] {
        let (success, text) = stated(arguments);
        assert!(!success, "{arguments:?} succeeded");
        assert!(text.contains(name), "{arguments:?}: {text:?}");
    }
}

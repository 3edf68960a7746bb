//! Generates the gRPC code from `proto/` with a protobuf compiler in Rust, so that a build needs no protoc.

fn main() -> std::io::Result<()> {
    println!("cargo:rerun-if-changed=proto");
    let files = protox::compile(
        [
            "authapi.proto",
            "versionapi.proto",
            "eventstreamapi.proto",
            "logstreamapi.proto",
            "terminalstreamapi.proto",
            "tunnel.proto",
        ],
        ["proto"],
    )
    .map_err(|error| std::io::Error::other(format!("{error:?}")))?;
    tonic_prost_build::configure()
        // a payload is a slice of its received frame, never a copy
        .bytes(".")
        .codec_path("crate::wire::codec::Codec")
        .emit_rerun_if_changed(false)
        .compile_fds(files)
}

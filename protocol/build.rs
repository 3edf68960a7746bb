//! Makes the gRPC code from `proto/` with a protobuf compiler in Rust, so that nobody needs protoc.

fn main() -> std::io::Result<()> {
    println!("cargo:rerun-if-changed=proto");
    let files = protox::compile(
        [
            "authapi.proto",
            "versionapi.proto",
            "eventstreamapi.proto",
            "logstreamapi.proto",
            "terminalstreamapi.proto",
            "lane.proto",
        ],
        ["proto"],
    )
    .map_err(|error| std::io::Error::other(format!("{error:?}")))?;
    tonic_prost_build::configure()
        // a payload is a slice of the frame it came in, never a copy
        .bytes(".")
        .codec_path("crate::wire::codec::Codec")
        .emit_rerun_if_changed(false)
        .compile_fds(files)
}

//! The generated gRPC code, under the names of its protobuf packages.

#![expect(
    clippy::pedantic,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    clippy::clone_on_ref_ptr,
    clippy::derive_partial_eq_without_eq,
    unused_qualifications,
    reason = "generated code"
)]

pub mod codec;

/// Authentication of an agent.
pub mod authapi {
    tonic::include_proto!("authapi");
}

/// The version of the principal.
pub mod versionapi {
    tonic::include_proto!("versionapi");
}

/// The stream of events.
pub mod eventstreamapi {
    tonic::include_proto!("eventstreamapi");
}

/// Container logs for the hub.
pub mod logstreamapi {
    tonic::include_proto!("principal.apis.logstreamapi");
}

/// A terminal in a container.
pub mod terminalstreamapi {
    tonic::include_proto!("terminalstreamapi");
}

/// The tunnel for interactive traffic; a Go peer has none.
pub mod tunnel {
    tonic::include_proto!("argocdagent.lane");
}

/// The packages below `io`.
pub mod io {
    /// CloudEvents.
    pub mod cloudevents {
        /// Version 1 of the protobuf format.
        pub mod v1 {
            tonic::include_proto!("io.cloudevents.v1");
        }
    }
}

pub use io::cloudevents::v1 as cloudevents;

/// Bytes of a frame, uncompressed.
pub fn frame_bytes(frame: &eventstreamapi::Event) -> usize {
    prost::Message::encoded_len(frame)
}

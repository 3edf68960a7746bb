//! The targets, each with its seeds and its properties.

mod certificate;
mod filter;
mod frames;
mod object;
mod request;
mod resp;
mod token;

/// A function of the product with its seeds and its properties.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    /// Random variants in a short run.
    #[cfg_attr(
        feature = "libfuzzer",
        expect(dead_code, reason = "libFuzzer has its own bound")
    )]
    pub(crate) cases: u64,
    pub(crate) seeds: fn() -> Vec<Vec<u8>>,
    /// Panics if a property does not hold.
    pub(crate) check: fn(&[u8]),
}

pub(crate) const FRAMES: Target = Target {
    name: "frames",
    cases: 3_000,
    seeds: frames::seeds,
    check: frames::check,
};

pub(crate) const RESP: Target = Target {
    name: "resp",
    cases: 20_000,
    seeds: resp::seeds,
    check: resp::check,
};

pub(crate) const FILTER: Target = Target {
    name: "filter",
    cases: 1_000,
    seeds: filter::seeds,
    check: filter::check,
};

pub(crate) const CERTIFICATE: Target = Target {
    name: "certificate",
    cases: 2_000,
    seeds: certificate::seeds,
    check: certificate::check,
};

pub(crate) const TOKEN: Target = Target {
    name: "token",
    cases: 2_000,
    seeds: token::seeds,
    check: token::check,
};

pub(crate) const REQUEST: Target = Target {
    name: "request",
    cases: 20_000,
    seeds: request::seeds,
    check: request::check,
};

pub(crate) const OBJECT: Target = Target {
    name: "object",
    cases: 500,
    seeds: object::seeds,
    check: object::check,
};

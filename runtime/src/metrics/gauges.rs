//! Gauges that are computed at each scrape instead of being kept up to date.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Writes current values.
#[derive(Debug)]
pub struct Gauges<'a> {
    encoder: DescriptorEncoder<'a>,
}

impl<'a> Gauges<'a> {
    /// Writes to the response of a scrape.
    pub const fn new(encoder: DescriptorEncoder<'a>) -> Self {
        Self { encoder }
    }

    /// One value.
    ///
    /// # Errors
    /// It could not be written.
    pub fn one(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        let encoder = &mut self.encoder;
        let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(value).encode(metric)
    }

    /// One value for each word of a label.
    ///
    /// # Errors
    /// One could not be written.
    pub fn each(
        &mut self,
        name: &str,
        help: &str,
        label: &'static str,
        values: &[(&'static str, f64)],
    ) -> fmt::Result {
        let mut metric = self
            .encoder
            .encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (word, value) in values {
            let labels = [(label, *word)];
            ConstGauge::new(*value).encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }

    /// A value that only grows.
    ///
    /// # Errors
    /// It could not be written.
    pub fn counter(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        let metric = self
            .encoder
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(value).encode(metric)
    }
}

//! Objects of fixed sizes, which requests select by size and popularity.
//!
//! A request first draws a size, so that sizes can be correlated within a session. It then draws an
//! object of about that size. Objects are sorted by size and divided into classes that are drawn
//! equally often. Inside a class, popularity follows Zipf's law.

use super::normal;
use crate::generators::random::{AliasTable, Stream, zipf_weights};

/// Objects of lognormal size, in classes of equal probability.
#[derive(Clone, Debug)]
pub(crate) struct Catalogue {
    /// Upper bounds of all classes except the last, as standard normal deviates of ln(size).
    bounds: Vec<f64>,
    /// Sizes of the objects in bytes, ordered by class and then by popularity. The index is the
    /// number of an object.
    size_bytes: Vec<u32>,
    per_class: u32,
    popularity: AliasTable,
}

impl Catalogue {
    /// A catalogue whose requests have the mean size `mean_bytes` if their deviates are standard
    /// normal. `objects` must be a multiple of `classes`.
    pub(crate) fn new(
        mean_bytes: f64,
        sigma: f64,
        objects: u32,
        classes: u32,
        exponent: f64,
    ) -> Self {
        let per_class = objects / classes;
        let weights = zipf_weights(per_class, exponent);
        let mut relative: Vec<f64> = (0..objects)
            .map(|object| (f64::from(object) + 0.5) / f64::from(objects))
            .map(|share| libm::exp(sigma * normal::quantile(share)))
            .collect();
        for class in relative.chunks_exact_mut(per_class as usize) {
            popular_near_mean(class);
        }
        let total: f64 = weights.iter().sum();
        let mean = relative
            .chunks_exact(per_class as usize)
            .flat_map(|class| class.iter().zip(&weights))
            .map(|(size, weight)| size * weight)
            .sum::<f64>()
            / (total * f64::from(classes));
        Self {
            bounds: (1..classes)
                .map(|class| normal::quantile(f64::from(class) / f64::from(classes)))
                .collect(),
            size_bytes: relative
                .iter()
                .map(|size| libm::rint(size * mean_bytes / mean).max(1.0) as u32)
                .collect(),
            per_class,
            popularity: AliasTable::new(&weights),
        }
    }

    /// Draws an object for a request whose ln(size) lies `deviate` standard deviations from the
    /// median. Returns the number of the object and its size in bytes.
    #[inline]
    pub(crate) fn draw(&self, deviate: f64, popularity: &mut Stream) -> (u32, u32) {
        let class = self.bounds.partition_point(|bound| *bound <= deviate) as u32;
        let object = class * self.per_class + self.popularity.draw(popularity);
        (object, self.size_bytes[object as usize])
    }
}

/// Orders a class by distance from its mean. The nearest object is first, which makes it the most
/// popular one.
///
/// A few objects receive most requests of a class. With popularity independent of size, a large
/// popular object could determine the mean response.
fn popular_near_mean(class: &mut [f64]) {
    let mean = class.iter().sum::<f64>() / class.len() as f64;
    class.sort_by(|a, b| (a - mean).abs().total_cmp(&(b - mean).abs()));
}

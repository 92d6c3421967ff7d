//! Which containers are open.

use super::Shape;

/// The open containers, one bit each: the depth of a body costs next to nothing.
#[derive(Debug, Default)]
pub(super) struct Nest {
    pub(super) depth: usize,
    /// The innermost containers, up to 64, the last one in the lowest bit; 1 is an object.
    bits: u64,
    /// Those further out, 64 a word.
    outer: Vec<u64>,
}

impl Nest {
    pub(super) fn push(&mut self, shape: Shape) {
        if self.depth != 0 && self.depth.is_multiple_of(64) {
            self.outer.push(self.bits);
        }
        self.bits = self.bits << 1 | u64::from(shape == Shape::Object);
        self.depth += 1;
    }

    pub(super) fn pop(&mut self) {
        self.bits >>= 1;
        self.depth = self.depth.saturating_sub(1);
        if self.depth != 0 && self.depth.is_multiple_of(64) {
            self.bits = self.outer.pop().unwrap_or_default();
        }
    }

    pub(super) fn top(&self) -> Shape {
        if self.bits & 1 == 1 {
            Shape::Object
        } else {
            Shape::Array
        }
    }
}

//! Long ways through a body, 64 bytes at a time: over containers that are read later, and over the
//! escapes of a string.

use super::super::Unreadable;
use super::Value;
use super::blocks::{BLOCK, Brackets, Strings, block, escaped, odd_up_to, places};
use super::text::is_escape;
use super::walk::{Token, Walk};

impl<'a> Walk<'a> {
    /// The whole value that stands next, a container not checked, but only stepped over.
    pub(super) fn value_unchecked(&mut self) -> Result<Option<Value<'a>>, Unreadable> {
        match self.step()? {
            Token::Open(shape) => {
                let start = self.at.saturating_sub(1);
                self.skim()?;
                Ok(Some(self.container(shape, start)))
            }
            token => self.value_of(token),
        }
    }

    /// Steps behind the end of the container just opened, minding strings and brackets only. In a
    /// container that is well-formed that is its own end.
    fn skim(&mut self) -> Result<(), Unreadable> {
        let mut open = 1;
        let mut escape = false;
        // All bits are set where the block before ended inside a string.
        let mut inside = 0u64;
        while self.at < self.body.len() {
            let block = block(self.rest());
            let strings = Strings::of(&block);
            let quotes = strings.quotes & !escaped(strings.backslashes, &mut escape);
            let text = odd_up_to(quotes) ^ inside;
            inside = 0u64.wrapping_sub(text >> 63);
            let brackets = Brackets::of(&block);
            let (opening, closing) = (brackets.opening & !text, brackets.closing & !text);
            if closing.count_ones() < open {
                open = open + opening.count_ones() - closing.count_ones();
                self.at += BLOCK;
                continue;
            }
            for place in places(opening | closing) {
                match opening >> place & 1 {
                    1 => open += 1,
                    _ => open -= 1,
                }
                if open == 0 {
                    self.at += place + 1;
                    self.nest.pop();
                    self.complete(Token::Nothing);
                    return Ok(());
                }
            }
            self.at += BLOCK;
        }
        Err(Unreadable::Json)
    }

    /// Steps from the first escape of a string to its closing quote.
    pub(super) fn escapes(&mut self) -> Result<(), Unreadable> {
        let mut escape = false;
        while self.at < self.body.len() {
            let rest = self.rest();
            let block = block(rest);
            let strings = Strings::of(&block);
            let escaped = escaped(strings.backslashes, &mut escape);
            let end = (strings.quotes & !escaped).trailing_zeros() as usize;
            for place in places(escaped).take_while(|place| *place < end) {
                if !is_escape(rest.get(place..).unwrap_or_default()) {
                    return Err(Unreadable::Json);
                }
            }
            self.at += end.min(BLOCK);
            if end < BLOCK {
                return Ok(());
            }
        }
        Err(Unreadable::Json)
    }
}

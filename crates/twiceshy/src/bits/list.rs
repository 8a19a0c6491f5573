//! Lists that grow without a branch, because whether a number is appended is unpredictable.

/// A list of at most `ROOM` numbers.
pub(crate) struct List<const ROOM: usize> {
    numbers: [usize; ROOM],
    count: usize,
}

impl<const ROOM: usize> List<ROOM> {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self { numbers: [0; ROOM], count: 0 }
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Appends `number` if `belongs` is true. The list must have room for it.
    #[inline(always)]
    pub(crate) fn push_if(&mut self, belongs: bool, number: usize) {
        self.numbers[self.count % ROOM] = number;
        self.count += usize::from(belongs);
    }

    /// Empties the list. Returns the numbers that were in it.
    #[inline(always)]
    pub(crate) fn drain(&mut self) -> &[usize] {
        &self.numbers[..core::mem::take(&mut self.count)]
    }
}

//! Makes a PNG smaller that is too large for models: every few pixels become one.
//!
//! The PNG is read row by row, so it costs little memory however large it is. Screenshots are PNGs, and need only the
//! code in this file and a zlib that is in the program anyway. Other formats would need decoders as large as all the
//! tools together.

use std::io::{self, Read, Write as _};

use flate2::{Compression, Crc, read::ZlibDecoder, write::ZlibEncoder};

use super::{MOST_BYTES, big};

/// A smaller picture, and its sides.
#[derive(Debug)]
pub(crate) struct Shrunk {
    pub(crate) png: Vec<u8>,
    pub(crate) sides: (u32, u32),
}

/// Returns the picture with fewer pixels. `None` if it is no PNG, a broken or interlaced one, or has too many pixels.
pub(crate) fn png(bytes: &[u8]) -> Option<Shrunk> {
    let header = Header::read(bytes)?;
    let longest = header.width.max(header.height);
    let mut factor = longest.div_ceil(GOOD_SIDE).max(1);
    // Noise does not compress; then there must be fewer pixels.
    for _ in 0..4 {
        let small = header.shrink(bytes, factor).ok()?;
        let png = write(&small).ok()?;
        if png.len() <= MOST_BYTES {
            return Some(Shrunk {
                png,
                sides: (small.width, small.height),
            });
        }
        factor += factor.div_ceil(2);
    }
    None
}

struct Header {
    width: u32,
    height: u32,
    depth: u8,
    colour: Colour,
    /// The colours that pixels name by number, with the alpha value of each.
    palette: Vec<[u8; 4]>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Colour {
    Grey,
    Rgb,
    Palette,
    GreyAlpha,
    Rgba,
}

/// Pixels of four bytes.
struct Pixels {
    width: u32,
    height: u32,
    bytes: Vec<u8>,
}

impl Header {
    fn read(bytes: &[u8]) -> Option<Self> {
        let data = chunks(bytes).find(|(name, _)| *name == b"IHDR")?.1;
        let [width, height] = [data.get(..4)?, data.get(4..8)?].map(big);
        let &[depth, colour, 0, 0, 0] = data.get(8..13)? else {
            return None;
        };
        let colour = match (colour, depth) {
            (0, 1 | 2 | 4 | 8 | 16) => Colour::Grey,
            (2, 8 | 16) => Colour::Rgb,
            (3, 1 | 2 | 4 | 8) => Colour::Palette,
            (4, 8 | 16) => Colour::GreyAlpha,
            (6, 8 | 16) => Colour::Rgba,
            _ => return None,
        };
        let pixels = u64::from(width) * u64::from(height);
        if width == 0 || height == 0 || width > MOST_WIDTH || pixels > MOST_PIXELS {
            return None;
        }
        let find = |name: &[u8; 4]| {
            chunks(bytes)
                .find(|chunk| chunk.0 == name)
                .map(|chunk| chunk.1)
        };
        let colours = find(b"PLTE").unwrap_or_default();
        let seen = find(b"tRNS")
            .filter(|_| colour == Colour::Palette)
            .unwrap_or_default();
        let palette = colours.chunks_exact(3).enumerate().map(|(at, rgb)| {
            let alpha = seen.get(at).copied().unwrap_or(255);
            [rgb[0], rgb[1], rgb[2], alpha]
        });
        Some(Self {
            width,
            height,
            depth,
            colour,
            palette: palette.collect(),
        })
    }

    fn samples(&self) -> usize {
        match self.colour {
            Colour::Grey | Colour::Palette => 1,
            Colour::GreyAlpha => 2,
            Colour::Rgb => 3,
            Colour::Rgba => 4,
        }
    }

    /// Replaces every square of so many pixels by their mean.
    fn shrink(&self, bytes: &[u8], factor: u32) -> io::Result<Pixels> {
        let parts = chunks(bytes).filter(|(name, _)| *name == b"IDAT");
        let mut data = ZlibDecoder::new(Parts {
            parts: parts.map(|(_, data)| data),
            part: &[],
        });
        let (width, height) = (self.width.div_ceil(factor), self.height.div_ceil(factor));
        let bits = self.samples() * usize::from(self.depth);
        let length = (self.width as usize * bits).div_ceil(8);
        let (mut row, mut above) = (vec![0; length], vec![0; length]);
        // The sums of red, green, blue and alpha, and the number of pixels in them.
        let mut sums = vec![[0_u32; 5]; width as usize];
        let mut pixels = Pixels {
            width,
            height,
            bytes: Vec::with_capacity(width as usize * height as usize * 4),
        };
        for line in 1..=self.height {
            let mut filter = [0];
            data.read_exact(&mut filter)?;
            data.read_exact(&mut row)?;
            unfilter(filter[0], &mut row, &above, bits.div_ceil(8))?;
            for (at, sum) in (0..self.width).map(|at| (at, (at / factor) as usize)) {
                let pixel = self.pixel(&row, at as usize);
                let alpha = u32::from(pixel[3]);
                let sum = &mut sums[sum];
                // A pixel that is not visible has no colour.
                for (sum, value) in sum.iter_mut().zip(&pixel[..3]) {
                    *sum += u32::from(*value) * alpha / 255;
                }
                sum[3] += alpha;
                sum[4] += 1;
            }
            if line % factor == 0 || line == self.height {
                pixels.bytes.extend(sums.iter().flat_map(mean));
                sums.fill([0; 5]);
            }
            std::mem::swap(&mut row, &mut above);
        }
        Ok(pixels)
    }

    fn pixel(&self, row: &[u8], at: usize) -> [u8; 4] {
        let samples = self.samples();
        let sample = |number: usize| match self.depth {
            16 => row[2 * (at * samples + number)],
            8 => row[at * samples + number],
            depth => {
                let (depth, bit) = (usize::from(depth), at * usize::from(depth));
                let value = row[bit / 8] >> (8 - depth - bit % 8) & ((1 << depth) - 1);
                match self.colour {
                    Colour::Palette => value,
                    _ => value * (255 / ((1 << depth) - 1)),
                }
            }
        };
        match self.colour {
            Colour::Grey => [sample(0), sample(0), sample(0), 255],
            Colour::GreyAlpha => [sample(0), sample(0), sample(0), sample(1)],
            Colour::Rgb => [sample(0), sample(1), sample(2), 255],
            Colour::Rgba => [sample(0), sample(1), sample(2), sample(3)],
            Colour::Palette => {
                let colour = self.palette.get(usize::from(sample(0)));
                colour.copied().unwrap_or([0, 0, 0, 255])
            }
        }
    }
}

fn mean(sum: &[u32; 5]) -> [u8; 4] {
    let [red, green, blue, alpha, count] = *sum;
    // The colours were weighted by alpha, so they are divided by it again.
    let part = |value: u32| u8::try_from((value * 255).checked_div(alpha).unwrap_or(0).min(255));
    let seen = u8::try_from(alpha / count.max(1)).unwrap_or(255);
    let [red, green, blue] = [red, green, blue].map(|value| part(value).unwrap_or(255));
    [red, green, blue, seen]
}

/// Undoes the filter that makes a row compress better.
fn unfilter(filter: u8, row: &mut [u8], above: &[u8], step: usize) -> io::Result<()> {
    for at in 0..row.len() {
        let left = if at >= step { row[at - step] } else { 0 };
        let up = above[at];
        let corner = if at >= step { above[at - step] } else { 0 };
        let expected = match filter {
            0 => 0,
            1 => left,
            2 => up,
            3 => u8::midpoint(left, up),
            4 => paeth(left, up, corner),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        row[at] = row[at].wrapping_add(expected);
    }
    Ok(())
}

/// Returns the one of three neighbours that is nearest to left + up - corner.
fn paeth(left: u8, up: u8, corner: u8) -> u8 {
    let [a, b, c] = [left, up, corner].map(i16::from);
    let (to_left, to_up, to_corner) = ((b - c).abs(), (a - c).abs(), (a + b - 2 * c).abs());
    if to_left <= to_up && to_left <= to_corner {
        left
    } else if to_up <= to_corner {
        up
    } else {
        corner
    }
}

/// Returns name and data of each chunk that is whole.
fn chunks(bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = bytes.get(8..).unwrap_or_default();
    std::iter::from_fn(move || {
        let length = usize::try_from(big(rest.get(..4)?)).ok()?;
        let name = rest.get(4..8)?;
        let data = rest.get(8..length.checked_add(8)?)?;
        rest = rest.get(length.checked_add(12)?..)?;
        Some((name, data))
    })
}

/// A reader over pieces of data, one after the other.
struct Parts<'a, I> {
    parts: I,
    part: &'a [u8],
}

impl<'a, I: Iterator<Item = &'a [u8]>> Read for Parts<'a, I> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.part.is_empty() {
            match self.parts.next() {
                Some(part) => self.part = part,
                None => return Ok(0),
            }
        }
        self.part.read(buffer)
    }
}

/// Writes the pixels as a PNG: without alpha, if all of them are opaque.
fn write(pixels: &Pixels) -> io::Result<Vec<u8>> {
    let opaque = pixels
        .bytes
        .iter()
        .skip(3)
        .step_by(4)
        .all(|alpha| *alpha == 255);
    let (colour, step) = if opaque { (2, 3) } else { (6, 4) };
    let mut data = ZlibEncoder::new(Vec::new(), Compression::default());
    let mut above = vec![0; pixels.width as usize * step];
    for row in pixels.bytes.chunks(pixels.width as usize * 4) {
        let row: Vec<u8> = row
            .chunks(4)
            .flat_map(|pixel| &pixel[..step])
            .copied()
            .collect();
        let predicted = (0..row.len()).map(|at| {
            let left = if at >= step { row[at - step] } else { 0 };
            let corner = if at >= step { above[at - step] } else { 0 };
            row[at].wrapping_sub(paeth(left, above[at], corner))
        });
        let mut line = vec![4];
        line.extend(predicted);
        data.write_all(&line)?;
        above = row;
    }
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    let sides = [pixels.width, pixels.height].map(u32::to_be_bytes).concat();
    push_chunk(
        &mut png,
        b"IHDR",
        &[sides.as_slice(), &[8, colour, 0, 0, 0]].concat(),
    );
    push_chunk(&mut png, b"IDAT", &data.finish()?);
    push_chunk(&mut png, b"IEND", b"");
    Ok(png)
}

fn push_chunk(png: &mut Vec<u8>, name: &[u8; 4], data: &[u8]) {
    let mut sum = Crc::new();
    sum.update(name);
    sum.update(data);
    png.extend(u32::try_from(data.len()).unwrap_or(u32::MAX).to_be_bytes());
    png.extend(name);
    png.extend(data);
    png.extend(sum.sum().to_be_bytes());
}

/// More pixels on a side are of no use to models.
const GOOD_SIDE: u32 = 1568;

/// The limits of width and pixels: a row must fit into memory, and all rows must be done in a moment.
const MOST_WIDTH: u32 = 65_536;
const MOST_PIXELS: u64 = 200_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a picture of this many pixels, four bytes each.
    fn picture(width: u32, height: u32, pixel: impl Fn(u32, u32) -> [u8; 4]) -> Vec<u8> {
        let bytes = (0..height)
            .flat_map(|y| (0..width).map(move |x| (x, y)))
            .flat_map(|(x, y)| pixel(x, y))
            .collect();
        let pixels = Pixels {
            width,
            height,
            bytes,
        };
        write(&pixels).unwrap()
    }

    fn pixels(png: &[u8]) -> Pixels {
        Header::read(png).unwrap().shrink(png, 1).unwrap()
    }

    #[test]
    fn what_is_written_is_read_again() {
        for alpha in [255, 128] {
            let written = picture(7, 5, |x, y| [(x * 30) as u8, (y * 50) as u8, 9, alpha]);
            let read = pixels(&written);
            assert_eq!((read.width, read.height), (7, 5));
            for (at, pixel) in read.bytes.chunks(4).enumerate() {
                let (x, y) = (at as u32 % 7, at as u32 / 7);
                let expected = [(x * 30) as i16, (y * 50) as i16, 9, i16::from(alpha)];
                for (value, expected) in pixel.iter().zip(expected) {
                    // Colours that are half visible are rounded.
                    assert!((i16::from(*value) - expected).abs() <= 2, "{pixel:?}");
                }
            }
        }
    }

    #[test]
    fn a_large_picture_becomes_a_small_one_that_looks_alike() {
        let red_then_blue = |x: u32, _| {
            if x < 2000 {
                [255, 0, 0, 255]
            } else {
                [0, 0, 255, 255]
            }
        };
        let shrunk = png(&picture(4000, 100, red_then_blue)).unwrap();
        assert_eq!(shrunk.sides, (1334, 34));
        assert_eq!(super::super::check(&shrunk.png), Ok("image/png"));
        let small = pixels(&shrunk.png);
        assert_eq!(small.bytes[..4], [255, 0, 0, 255]);
        assert_eq!(small.bytes[1333 * 4..1334 * 4], [0, 0, 255, 255]);
    }

    #[test]
    fn pixels_of_few_bits_and_palettes_are_understood() {
        // Two rows of ten pixels, one bit each: a palette of green and nothing.
        let mut data = ZlibEncoder::new(Vec::new(), Compression::default());
        data.write_all(&[0, 0b0101_0101, 0b0100_0000, 2, 0, 0])
            .unwrap();
        let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
        push_chunk(
            &mut file,
            b"IHDR",
            &[0, 0, 0, 10, 0, 0, 0, 2, 1, 3, 0, 0, 0],
        );
        push_chunk(&mut file, b"PLTE", &[0, 255, 0, 9, 9, 9]);
        push_chunk(&mut file, b"tRNS", &[255, 0]);
        push_chunk(&mut file, b"IDAT", &data.finish().unwrap());
        push_chunk(&mut file, b"IEND", b"");
        let read = pixels(&file);
        for pair in read.bytes.chunks(8) {
            assert_eq!(pair, [0, 255, 0, 255, 0, 0, 0, 0]);
        }
        assert_eq!(read.bytes.len(), 80);
    }

    #[test]
    fn no_beginning_and_no_nonsense_is_a_picture() {
        let whole = picture(40, 40, |x, y| [(x * y) as u8, 0, 0, 255]);
        for length in 0..whole.len() - 12 {
            assert!(png(&whole[..length]).is_none(), "{length}");
        }
        let mut wide = whole;
        wide[16..20].copy_from_slice(&u32::MAX.to_be_bytes());
        assert!(png(&wide).is_none());
    }
}

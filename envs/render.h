#pragma once

#include <string>

#include "tendril/envs/cartpole.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// Pictures of a CartPole: a frame for the terminal, a frame as SVG. Both show Gymnasium's 600 x 400 scene.
namespace tendril::envs {

struct TerminalRenderOptions {
  /// Size of the frame in character cells; at least 20 x 5. The cells show the part of the scene around the cart.
  int columns = 60;
  int rows = 10;  ///< lines of text
  /// ANSI colours: a brown pole on a blue axle. Without them the frame is plain text.
  bool color = false;
  /// Braille patterns, eight dots a cell (UTF-8). false draws with ASCII characters only.
  bool braille = true;
};

/// `rows` lines, each of `columns` cells and ended by a newline. Throws Error for a frame that is too small. A cart
/// more than 4.8 m from the centre, or a state that is not finite, is not drawn.
std::string render_terminal(const CartPole::State& state, const TerminalRenderOptions& options = {});

/// A complete SVG document of 600 x 400 pixels: track, cart, pole and axle in the places and colours of Gymnasium's
/// rgb_array frame. The same carts are left out.
std::string render_svg(const CartPole::State& state);

}  // namespace tendril::envs

TENDRIL_API_END

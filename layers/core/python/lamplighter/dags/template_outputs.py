"""The outputs of other steps in templates: `outputs.load.rows`, `outputs["group.load"].rows`.

Owns: which steps a template names: always as constants, so that they are known beforehand.
"""

from jinja2 import nodes
from jinja2.visitor import NodeTransformer

from lamplighter.errors import DefinitionError

OUTPUTS = "outputs"


class _Keys(NodeTransformer):
    """Turns `outputs.load.items` into `outputs["load"]["items"]`, which is never a method."""

    def visit_Getattr(self, node: nodes.Getattr) -> nodes.Expr:  # noqa: N802 - Jinja's naming
        self.generic_visit(node)
        of = node.node
        if _is_outputs(of) or (isinstance(of, nodes.Getitem) and _is_outputs(of.node)):
            return nodes.Getitem(of, nodes.Const(node.attr), node.ctx, lineno=node.lineno)
        return node


def with_keys(template: nodes.Template) -> nodes.Template:
    """Return a parsed template in which steps and their outputs are keys."""
    changed: nodes.Template = _Keys().visit(template)
    return changed


def steps_named(template: nodes.Template) -> set[str]:
    """Return the steps whose outputs a template with keys reads."""
    found = [each.arg for each in template.find_all(nodes.Getitem) if _is_outputs(each.node)]
    named = [each.value for each in found if isinstance(each, nodes.Const)]
    uses = sum(map(_is_outputs, template.find_all(nodes.Name)))
    if uses != len(named) or not all(isinstance(name, str) for name in named):
        raise DefinitionError(
            "'outputs' is followed by the id of a task, as in outputs.load or"
            ' outputs["group.load"]'
        )
    return set(named)


def _is_outputs(node: nodes.Node) -> bool:
    return isinstance(node, nodes.Name) and node.name == OUTPUTS

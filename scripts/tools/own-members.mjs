/** A plugin for TypeDoc: a member that a documented type inherits is described there alone, and "Extends" leads to it. */
export function load(app) {
  // After types and inheritance are resolved, and before groups list the members.
  app.converter.on(
    "resolveEnd",
    ({ project }) => {
      const inherited = Object.values(project.reflections).filter(
        (member) => member.inheritedFrom?.reflection,
      );
      for (const member of inherited)
        if (project.getReflectionById(member.id)) project.removeReflection(member);
    },
    1000,
  );
}
